import XCTest

@testable import OmniDraft

/// Runs the folders `generate`, `logprobs` and `grammar/generate` on real graphs in onnxruntime.
final class GenerateVectorsTests: VectorTestCase {
    /// Modes that compare methods on a desktop; a port has none of them.
    private let baselines = ["match", "direct", "paper"]

    func testGenerate() throws { try run("generate", runGenerate) }

    func testLogprobs() throws { try run("logprobs", runGenerate) }

    func testInAGrammar() throws { try run("grammar/generate", runGenerate) }

    private func runGenerate(_ vector: Vector) throws {
        let mode = vector.input["mode"]!.string
        if baselines.contains(mode) {
            try same("a mode \(mode) of the port", GenerationConfig.Mode(rawValue: mode), nil)
            return
        }
        try WatchedText(vector).run()
    }
}
