import Foundation
import OmniDraftORT
import XCTest

@testable import OmniDraft

/// Files that cross languages, for scripts/ios/exchange.sh; the form is that of scripts/phones/exchange.py.
///
/// OMNIDRAFT_EXCHANGE is the folder that `testWrites` fills, or that `testReads` reads; OMNIDRAFT_REPORT is the file of what
/// was read.
final class ExchangeTests: XCTestCase {
    private let messages = ["How many legs do 3 cats have?", "And how many legs do 4 more cats have?", "Add one dog."]
    private let greedy = GenerationConfig(maxNewTokens: 32, numDraftTokens: 4)
    private let sampled = GenerationConfig(maxNewTokens: 32, temperature: 1, seed: 77, numDraftTokens: 4)

    func testWrites() throws {
        let folder = try place("OMNIDRAFT_EXCHANGE")
        let loaded = try StarterBundles.load("learning")
        let session = try SessionCore(loaded)
        _ = try session.chat(messages[0], greedy).finish()
        let answer = try session.chat(messages[1], sampled)
        for _ in 0..<3 { _ = try answer.next() }
        try session.save("\(folder)/talk.session")
        _ = session.cache.prefill()
        try session.saveCache("\(folder)/cache.odc")
        try record(loaded, "\(folder)/traces")
        let adapter = try learned(loaded, "\(folder)/traces")
        try writeAdapter("\(folder)/learned.safetensors", adapter)
        let contents = PushContents(
            adapter: try encodeAdapter(adapter), cache: try encodeCache(session.cache.table()),
            traces: try segmentsIn("\(folder)/traces", Vocabularies(loaded.vocabMap)), accepted: 1)
        let channel = try channelOf(loaded.adapterPlace)
        let (key, data) = try withEd25519 { try writePush(channel, contents, seed: [UInt8](1...32)) }
        try put("\(folder)/store/\(channel.id)/\(key).push", data)
    }

    func testReads() throws {
        let folder = try place("OMNIDRAFT_EXCHANGE")
        let report = try place("OMNIDRAFT_REPORT")
        let loaded = try StarterBundles.load("learning")
        var found: JsonObject = [
            "session": try talk(loaded, "\(folder)/talk.session"), "cache": try cache(loaded, "\(folder)/cache.odc"),
            "adapter": try adapter(loaded, "\(folder)/learned.safetensors"),
            "trace": try trace(loaded, "\(folder)/traces"),
        ]
        if isDirectory("\(folder)/release") { found["release"] = try release(loaded, "\(folder)/release") }
        try writeAtomically(report, dumpJson(.object(found)))
    }

    private func place(_ name: String) throws -> String {
        guard let path = ProcessInfo.processInfo.environment[name] else { throw XCTSkip("\(name) is not set") }
        return path
    }

    private func record(_ loaded: LoadedBundle, _ directory: String) throws {
        let store = try TraceStore(directory, Vocabularies(loaded.vocabMap))
        defer { store.close() }
        let session = try SessionCore(loaded, trace: store)
        try answers(session, 0..<8)
        XCTAssertNil(store.problem)
    }

    private func learned(_ loaded: LoadedBundle, _ traces: String) throws -> Adapter {
        let responses = try responsesIn(traces, loaded)
        let learner = try OrtLearner(
            OrtEngine.shared(), bundle: loaded.bundle, map: loaded.vocabMap, options: StepOptions(learningRate: 2e-3),
            now: { "2026-01-02T03:04:05Z" })
        for _ in 0..<4 { _ = try learner.learn(responses, .unbounded) }
        return try learner.adapter()
    }

    private func talk(_ loaded: LoadedBundle, _ file: String) throws -> JsonValue {
        let session = try SessionCore(loaded)
        try session.load(file)
        let begun = try XCTUnwrap(session.answer).tokenIds
        let resumed = try session.resume().finish().tokenIds
        let after = try session.chat(messages[2], greedy).finish().tokenIds
        return ["begun": list(begun), "resumed": list(resumed), "after": list(after)]
    }

    private func cache(_ loaded: LoadedBundle, _ file: String) throws -> JsonValue {
        let table = try readCacheTable(file, loaded.vocabMap)
        return ["ngrams": .int(table.count), "again": digest(try encodeCache(table))]
    }

    private func adapter(_ loaded: LoadedBundle, _ file: String) throws -> JsonValue {
        let adapter = try readAdapter(file)
        let answer = try SessionCore(loaded, adapter: file).generate(messages[0], sampled).finish()
        let counts = [answer.statistics.rounds, answer.statistics.acceptedDrafts]
        return [
            "digest": .string(adapter.digest), "again": digest(try encodeAdapter(adapter)),
            "ids": list(answer.tokenIds), "counts": .array(counts.map { .int($0) }),
        ]
    }

    private func trace(_ loaded: LoadedBundle, _ directory: String) throws -> JsonValue {
        var segments: [TraceSegment] = []
        try readSegments(directory, Vocabularies(loaded.vocabMap)) { segments.append($1) }
        let generations = segments.flatMap { $0.generations() }
        return [
            "generations": .int(generations.count), "rounds": .int(generations.reduce(0) { $0 + $1.rounds.count }),
            "responses": .int(try responsesIn(directory, loaded).count),
            "again": .array(try segments.map { digest(try encodeSegment($0)) }),
        ]
    }

    private func release(_ loaded: LoadedBundle, _ store: String) throws -> JsonValue {
        let directory = try newDirectory()
        defer { removeTree(directory) }
        let file = "\(directory)/cache.odc"
        try SessionCore(loaded).saveCache(file)
        let device = Device(
            models: loaded.adapterPlace, vocabMap: loaded.vocabMap, into: "\(directory)/releases", cache: file)
        let release = try readFile(
            "\(store)/\(channelOf(loaded.adapterPlace).id)/release", most: Defaults.syncMaxBytes)
        let key = try readFile("\(store)/key", most: 1 << 10)
        let pulled = try withEd25519 { try pull(readSigned(release, .release, publicKey: key), device) }
        XCTAssertEqual(pulled.outcome, .switched)
        let adapter = try readAdapter(XCTUnwrap(pulled.adapter))
        let ngrams = try readCacheTable(file, loaded.vocabMap).count
        return ["adapter": .string(adapter.digest), "ngrams": .int(ngrams)]
    }

    private func list(_ ids: [Int32]) -> JsonValue { .array(ids.map { .integer(Int64($0)) }) }

    private func digest(_ data: [UInt8]) -> JsonValue { .string(hexOf(sha256(data))) }
}
