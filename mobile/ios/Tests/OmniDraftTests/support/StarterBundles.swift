import Foundation
import OmniDraftORT
import XCTest

@testable import OmniDraft

/// The starter bundles and what Python wrote for them: the environment variable OMNIDRAFT_BUNDLES.
enum StarterBundles {
    /// The directory of a starter bundle; a test that asks for one is left out where there is none.
    static func directory(_ name: String) throws -> String { try made(name) }

    /// A loaded bundle, with the costs of its manifest: nothing is measured.
    static func load(_ name: String) throws -> LoadedBundle {
        let bundle = try openBundle(directory(name), verify: .full)
        return try loadBundle(bundle, Loading(engine: OrtEngine.shared(), measure: .never))
    }

    /// The prompts, settings and ids that Python wrote.
    static func ids(_ name: String) throws -> JsonObject {
        let path = try directory("expected/\(name)") + "/ids.json"
        return try parseJson([UInt8](Data(contentsOf: URL(fileURLWithPath: path)))).object
    }

    /// A config with settings by their names in Python; the length "auto" is null there, or the word.
    static func config(_ settings: JsonObject, seed: UInt64?) throws -> GenerationConfig {
        let known: Set = [
            "max_new_tokens", "temperature", "mode", "num_draft_tokens", "stop", "top_k", "top_p", "min_p",
            "repetition_penalty", "verification", "logprobs",
        ]
        try same("settings that are unknown here", Set(settings.names).subtracting(known), [])
        let verification = settings["verification"]?.string ?? "auto"
        return GenerationConfig(
            maxNewTokens: settings["max_new_tokens"]!.int,
            temperature: settings["temperature"]?.num ?? 0,
            seed: seed,
            mode: GenerationConfig.Mode(rawValue: settings["mode"]?.string ?? "trie")!,
            numDraftTokens: settings["num_draft_tokens"].flatMap {
                [.null, .string("auto")].contains($0) ? nil : $0.int
            },
            stop: settings["stop"]?.strings ?? [],
            topK: settings["top_k"]?.int ?? 0,
            topP: settings["top_p"]?.num ?? 1,
            minP: settings["min_p"]?.num ?? 0,
            repetitionPenalty: settings["repetition_penalty"]?.num ?? 1,
            verification: GenerationConfig.Verification(rawValue: verification)!,
            logprobs: settings["logprobs"]?.bool ?? false)
    }
}
