import Foundation
import XCTest

@testable import OmniDraft

/// Changed grammar files, and sessions on a starter bundle whose outputs belong to a grammar.
final class GrammarTests: FolderTestCase {
    private let question = "How many legs do 3 cats have?"
    private let config = GenerationConfig(maxNewTokens: 24, numDraftTokens: 4)

    private func grammar(_ name: String) throws -> Grammar { try grammarOf(.string("\(name).grammar")) }

    /// A file with other bytes is refused, or is a grammar whose texts can be completed.
    func testChangedFiles() throws {
        let faults: Set = ["truncated", "header", "format", "layout", "trailing_bytes", "tables"]
        let files = ChangedFiles(20_261_126)
        let trie = ByteTrie((0..<256).map { [UInt8($0)] }, width: 256)
        try files.check(vectorFiles("grammar/valid", ".grammar"), faults) { given in
            let grammar = try readGrammar(Bytes(files.changed(given)))
            guard let masks = try? TokenMasks(grammar, trie, eosIds: []) else { return }  // it is too long
            var (at, room) = (Configuration.start, Int(masks.bound(.start)) + 3)
            while room > 0, !masks.isLast(at, room: room), let mask = masks.mask(at, room: room) {
                at = try XCTUnwrap(grammar.step(at, files.pick((0...255).filter { mask.allows(Int32($0)) })))
                room -= 1
            }
            XCTAssert(grammar.isComplete(at))
        }
    }

    func testAFileIsReadByItsAddress() throws {
        let place = URL(fileURLWithPath: "\(vectorRoot)/grammar/valid")
        XCTAssert(try Grammar(contentsOf: place.appendingPathComponent("lists.grammar")).matches(Array("[1,[]]".utf8)))
        XCTAssertEqual(try faultOf { _ = try Grammar(contentsOf: place) }, "unreadable")
        XCTAssertEqual(try faultOf { _ = try Grammar(contentsOf: place.appendingPathComponent("none")) }, "unreadable")
    }

    func testAnOutputIsATextOfItsGrammar() throws {
        let (loaded, lists) = (try StarterBundles.load("a"), try grammar("lists"))
        for mode in [GenerationConfig.Mode.trie, .lookup, .plain] {
            for temperature in [0, 1.0] {
                for count in [4, nil] {
                    let config = GenerationConfig(
                        maxNewTokens: 24, temperature: temperature, seed: 3, mode: mode, numDraftTokens: count)
                    let answer = try SessionCore(loaded).chat(question, config, grammar: lists).finish()
                    XCTAssert(lists.matches(Array(answer.text.utf8)), "\(mode) \(temperature): \(answer.text)")
                    XCTAssert([.eos, .length, .complete].contains(answer.stopReason), "\(mode) \(temperature)")
                }
            }
        }
    }

    func testToolsAreCalledAndTheirResultsAnswered() throws {
        struct Clock: Decodable { let utc: Bool }
        let loaded = try StarterBundles.load("a")
        let (session, other) = (try SessionCore(loaded), try SessionCore(loaded))
        let file = joined(place, "tools.session")
        let settings = GenerationConfig(maxNewTokens: 80, temperature: 1, seed: 7)
        let greedy = GenerationConfig(maxNewTokens: 24, mode: .plain)
        let result = try session.chat(question, settings, grammar: grammar("clock"))
        var pieces: [Piece] = []
        while let piece = try result.next() { pieces.append(piece) }
        let call = try XCTUnwrap(result.calls.first)
        XCTAssertEqual(result.calls.count, 1)
        XCTAssertEqual(call.name, "clock")
        XCTAssertEqual(call.arguments, "{\"utc\": \(try call.decoded(as: Clock.self).utc)}")
        XCTAssertEqual(result.answer, "")
        XCTAssertTrue(pieces.allSatisfy { $0.kind == .call || $0.text.isEmpty })
        try session.save(file)
        XCTAssertEqual(try faultOf { _ = try session.toolResults(["1", "2"], greedy) }, "")
        let answer = try session.toolResults(["12"], greedy).finish()
        XCTAssertTrue(answer.calls.isEmpty && !answer.text.isEmpty)
        let again = try session.chat(question, greedy).finish()
        try other.load(file)
        XCTAssertEqual(try other.toolResults(["12"], greedy).finish().text, answer.text)
        XCTAssertEqual(try other.chat(question, greedy).finish().text, again.text)
        _ = try session.undo()
        XCTAssertEqual(try session.undo(), question)
        XCTAssertEqual(try faultOf { _ = try session.toolResults(["12"], greedy) }, "")
        XCTAssertEqual(try faultOf { _ = try session.chat(question, greedy, grammar: grammar("tools")) }, "calls")
    }

    func testTheOutputEndsWhereNothingMayFollow() throws {
        let session = try SessionCore(StarterBundles.load("a"))
        let before = try session.generate(question, config).finish().text
        let answer = try session.generate(question, config, grammar: grammar("way")).finish()
        XCTAssertEqual(answer.stopReason, .complete)
        XCTAssert(try grammar("way").matches(Array(answer.text.utf8)))
        XCTAssertEqual(try session.generate(question, config).finish().text, before, "the next text has no grammar")
    }

    func testWhatHasNoRoomIsRefused() throws {
        let session = try SessionCore(StarterBundles.load("a"))
        let before = try session.generate(question, config).finish()
        var short = config
        short.maxNewTokens = 1
        XCTAssertEqual(try faultOf { _ = try session.generate(question, short, grammar: grammar("doubled")) }, "room")
        XCTAssert(session.answer === before)
    }

    /// A file has no grammar, so nobody can go on with an answer that has one.
    func testAnAnswerIsSavedAsCancelled() throws {
        let loaded = try StarterBundles.load("a")
        let path = joined(place, "cancelled.session")
        for (name, rounds) in [("way", 100), ("lists", 1)] {
            let session = try SessionCore(loaded)
            let answer = try session.chat(question, config, grammar: grammar(name))
            for _ in 0..<rounds { _ = try answer.next() }
            XCTAssertEqual(answer.stopReason, rounds == 1 ? nil : .complete)
            try session.save(path)
            let other = try SessionCore(loaded)
            try other.load(path)
            XCTAssertEqual(other.answer?.stopReason, .cancelled)
            XCTAssertEqual(other.answer?.tokenIds, answer.tokenIds)
            XCTAssertThrowsError(try session.resume())
            if rounds > 1 {
                let again = try session.regenerate(config).finish()
                XCTAssertEqual(again.stopReason, .complete, "it has the grammar of the answer before")
            }
        }
    }

    func testAnOutputIsNotRecorded() throws {
        let loaded = try StarterBundles.load("a")
        let store = try TraceStore(joined(place, "t"), Vocabularies(loaded.vocabMap))
        defer { store.close() }
        let session = try SessionCore(loaded)
        session.trace = store
        _ = try session.generate(question, config, grammar: grammar("lists")).finish()
        _ = try session.generate(question, config).finish()
        store.sync()
        var outputs: [Int] = []
        try readTraces([joined(place, "t")], Vocabularies(loaded.vocabMap)) { outputs.append($0.tokens.count) }
        XCTAssertEqual(outputs.count, 1)
    }
}
