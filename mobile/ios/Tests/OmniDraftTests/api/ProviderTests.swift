import Foundation
import OmniDraftORT
import XCTest

@testable import OmniDraft

/// Where models run, and what is said where they cannot run there.
final class ProviderTests: XCTestCase {
    private let question = "How many legs do 3 cats have?"
    private let config = GenerationConfig(maxNewTokens: 24, numDraftTokens: 4)

    func testAProviderThatTheEngineLacksFallsBackToTheCpu() async throws {
        let ids = try await idsOn(PublicModel.shared())
        let there = try OrtEngine.shared().providers
        for provider in ExecutionProvider.allCases where provider != .cpu {
            if there.contains(where: { $0.hasPrefix("Xnnpack") }) { continue }
            let options = LoadOptions(provider: provider, state: PublicModel.state)
            let model = try await OmniDraft.open(PublicModel.url(StarterBundles.directory("a")), options: options)
            XCTAssertEqual(model.notices.map(\.kind), [.onCpu])
            let message = model.notices[0].message
            XCTAssertTrue(message.contains("this engine was built without \(provider.rawValue)"), message)
            let found = try await idsOn(model)
            XCTAssertEqual(found, ids)
        }
    }

    func testAProviderThatRefusesItsGraphsFallsBackToTheCpu() async throws {
        let engine = OverpromisingEngine(try OrtEngine.shared())
        let there = try OrtEngine.shared().providers
        if there.contains(where: { $0.hasPrefix("Xnnpack") }) { throw XCTSkip("this engine has XNNPACK") }
        let url = PublicModel.url(try StarterBundles.directory("a"))
        let options = LoadOptions(provider: .xnnpack, state: PublicModel.state)
        let model = try await OmniDraft.open(url, options: options, engine: engine)
        XCTAssertEqual(model.notices.map(\.kind), [.onCpu])
        let message = model.notices[0].message
        XCTAssertTrue(message.hasPrefix("running on the CPU: the engine cannot load "), message)
        XCTAssertTrue(message.contains("XNNPACK"), message)
        let ids = try await idsOn(PublicModel.shared())
        let found = try await idsOn(model)
        XCTAssertEqual(found, ids)
        XCTAssertEqual(engine.asked.with { $0 }, ["XNNPACK", ""])
    }

    func testXnnpackRunsTheModelsWhereTheEngineHasIt() async throws {
        if try !OrtEngine.shared().providers.contains(where: { $0.hasPrefix("Xnnpack") }) {
            throw XCTSkip("this onnxruntime was built without XNNPACK")
        }
        let url = PublicModel.url(try StarterBundles.directory("a"))
        let model = try await OmniDraft.open(url, options: LoadOptions(provider: .xnnpack, state: PublicModel.state))
        XCTAssertEqual(model.notices, [])
        let found = try await idsOn(model)
        XCTAssertFalse(found.isEmpty)
    }

    private func idsOn(_ model: LanguageModel) async throws -> [Int32] {
        let session = try await model.session()
        return try await session.result(of: session.generate(question, config)).tokenIds
    }
}

/// onnxruntime, which says that it has XNNPACK; its own refusal follows when a graph is loaded.
private final class OverpromisingEngine: InferenceEngine {
    let asked = Guarded<[String]>([])
    private let engine: OrtEngine

    init(_ engine: OrtEngine) { self.engine = engine }

    var version: String { engine.version }
    var providers: [String] { engine.providers + ["XnnpackExecutionProvider"] }

    func open(file path: String, _ options: GraphOptions) throws -> any EngineGraph {
        let name = options.provider?.name ?? ""
        asked.with { if $0.last != name { $0.append(name) } }
        return try engine.open(file: path, options)
    }

    func open(bytes: [UInt8], weights: String, _ options: GraphOptions) throws -> any EngineGraph {
        try engine.open(bytes: bytes, weights: weights, options)
    }
}
