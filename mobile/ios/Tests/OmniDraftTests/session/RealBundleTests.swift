import Foundation
import XCTest

@testable import OmniDraft

/// Sessions on the starter bundles say what Python says.
final class RealBundleTests: XCTestCase {
    private let greedy = GenerationConfig(maxNewTokens: 48, numDraftTokens: 4)
    private let question = "How many legs do 3 cats have?"

    func testIdsEqualThoseOfPython() throws {
        for name in ["a", "b", "half"] {
            let loaded = try StarterBundles.load(name)
            let content = try StarterBundles.ids(name)
            let prompts = content["prompts"]!.strings
            for run in content["runs"]!.array.map(\.object) {
                try compare("\(name): \(run["name"]!.string)", run, loaded, prompts)
            }
        }
    }

    func testASessionOfPythonGoesOn() throws {
        for name in ["a", "b", "half"] {
            let due = try StarterBundles.ids(name)["session"]!.object
            let session = try SessionCore(StarterBundles.load(name))
            try session.load(StarterBundles.directory("expected/\(name)") + "/talk.session")
            XCTAssertEqual(session.answer?.tokenIds.count, due["before"]!.int)
            XCTAssertEqual(try session.resume().finish().tokenIds, due["resumed"]!.int32s)
            let tokens = try StarterBundles.ids(name)["tokens"]!.int
            let config = GenerationConfig(maxNewTokens: tokens, numDraftTokens: 4)
            let after = try session.chat(due["questions"]!.strings[2], config).finish()
            XCTAssertEqual(after.tokenIds, due["after"]!.int32s)
        }
    }

    func testFloat16KeysAndValuesTakeHalfTheMemory() throws {
        let (half, full) = (try StarterBundles.load("half").bundle, try StarterBundles.load("a").bundle)
        XCTAssertEqual(half.target.kv.type, .float16)
        XCTAssertEqual(full.target.kv.bytes, 2 * half.target.kv.bytes)
        XCTAssertEqual(memoryNeed(full).kv - memoryNeed(half).kv, half.target.kv.bytes)
        let held = try kvBuffers(half.target.kv).reduce(0) { $0 + $1.bytes.count }
        XCTAssertEqual(held, half.target.kv.bytes)
    }

    func testABundleWithoutADrafterCopies() throws {
        let alone = try StarterBundles.load("alone")
        XCTAssertNil(alone.drafter)
        XCTAssertEqual(memoryNeed(alone.bundle).total, memoryNeed(alone.bundle, drafter: false).total)
        let long = GenerationConfig(maxNewTokens: 96)
        let whole = try SessionCore(StarterBundles.load("a")).generate(question, long).finish().tokenIds
        let session = try SessionCore(alone)
        let answer = try session.generate(question, long).finish()
        XCTAssertEqual(answer.tokenIds, whole)
        XCTAssertGreaterThan(answer.statistics.accepted, 0)
        XCTAssertEqual(answer.statistics.drafted, 0)
        XCTAssertThrowsError(try session.models.loadDrafter())
    }

    func testCancelBeforeTheFirstRoundKeepsTheSession() throws {
        let session = try SessionCore(StarterBundles.load("a"))
        let whole = try session.generate(question, greedy).finish().tokenIds
        let before = try session.generate(question, greedy)
        before.cancel()
        XCTAssertEqual(try before.finish().tokenIds, [])
        XCTAssertEqual(before.stopReason, .cancelled)
        XCTAssertEqual(try session.generate(question, greedy).finish().tokenIds, whole)
    }

    func testAConversationThatIsTooLongNamesWhatHelps() throws {
        let session = try SessionCore(StarterBundles.load("a"))
        let long = String(repeating: "word ", count: 1500)
        XCTAssertEqual(remedy { _ = try session.chat(long, greedy) }, tooLongRemedy)
        let whole = try session.chat(question, greedy).finish().tokenIds
        let undo = remedy { _ = try session.chat(long, greedy) }
        XCTAssertTrue(undo.contains("undo() takes the last one back, reset() begins"), undo)
        let listed = try readMessages([("user", long), ("assistant", "a"), ("user", question)])
        let leaveOut = remedy { _ = try session.chat(listed, greedy) }
        XCTAssertTrue(leaveOut.contains("leave out earlier ones"), leaveOut)
        XCTAssertEqual(session.answer?.tokenIds, whole)
    }

    func testAConversationHasNoEndWhereTheOldestTurnsAreLeftOut() throws {
        XCTAssertEqual(firstKept([75, 60, 40, 20], limit: 100, new: 25), 0)
        XCTAssertEqual(firstKept([76, 60, 40, 20], limit: 100, new: 999), 3)
        XCTAssertEqual(firstKept([91, 80, 41, 20], limit: 100, new: 10), 3)
        XCTAssertEqual(firstKept([91, 80, 40, 20], limit: 100, new: 10), 2)
        XCTAssertEqual(firstKept([120, 110], limit: 100, new: 10), 1)
        let session = try SessionCore(StarterBundles.load("a"))
        session.dropsOldest = true
        try session.setSystem("Count.")
        let message = String(repeating: "word ", count: session.contextSize / 8)
        var dropped = 0
        for number in 0..<12 {
            let answer = try session.chat("\(number) \(message)", greedy).finish()
            dropped += answer.droppedTurns
            XCTAssertEqual(answer.prompt.count + answer.tokenIds.count, session.contextUsed)
            XCTAssertLessThanOrEqual(answer.prompt.count + greedy.maxNewTokens, session.contextSize)
            XCTAssertEqual(session.text.turns.count, number - dropped)
        }
        XCTAssertGreaterThan(dropped, 1)
    }

    /// The remedy of a refused prompt; empty where nothing is refused.
    private func remedy(_ body: () throws -> Void) -> String {
        do {
            try body()
        } catch OmniDraftError.prompt(let refusal) {
            return refusal.remedy
        } catch {
            XCTFail("\(error)")
        }
        return ""
    }

    private func compare(_ name: String, _ run: JsonObject, _ loaded: LoadedBundle, _ prompts: [String]) throws {
        let bundle = name.prefix { $0 != ":" }
        let place = try StarterBundles.directory("expected/\(bundle)")
        let session = try SessionCore(
            loaded, cache: run["cache"]!.bool ? "\(place)/cache.odc" : nil,
            adapter: run["adapter"]!.bool ? "\(place)/adapter.safetensors" : nil)
        XCTAssertEqual(session.notices, [], name)
        var equal = 0
        for (number, prompt) in prompts.enumerated() {
            let seed = UInt64(run["seeds"]!.array[number].string, radix: 16)
            XCTAssertNotNil(seed)
            let config = try StarterBundles.config(run["settings"]!.object, seed: seed)
            let answer = try session.generate(prompt, config).finish()
            let due = run["ids"]!.array[number].int32s
            XCTAssertEqual(answer.tokenIds, due, "\(name), prompt \(number)")
            equal += answer.tokenIds == due ? 1 : 0
            XCTAssertEqual(Array(answer.text.utf8), Array(run["texts"]!.array[number].string.utf8), name)
            try close("log-probabilities", answer.logprobs, run["logprobs"]!.array[number].nums, 1e-4)
        }
        print("ids \(bundle) \(equal)/\(prompts.count)")
        let totals = session.stats
        let counts = [totals.rounds, totals.drafted, totals.evaluated, totals.acceptedDrafts, totals.learned]
        XCTAssertEqual(counts, run["counts"]!.ints, name)
    }
}
