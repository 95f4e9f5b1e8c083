#if os(Linux)
    import Foundation
    import XCTest

    @testable import OmniDraft

    /// What cannot be stops the program: a token that nobody verified must not be output. Each broken call runs in a process
    /// of its own, this test alone in the same program.
    final class BrokenInvariantTests: XCTestCase {
        func testARefusedDecisionThatIsNotReplacedStopsTheProgram() throws {
            try stops { try verify(verifyTokens) }
        }

        func testAWalkBackWithoutAnEndStopsTheProgram() throws {
            try stops { try verify(verifyBlock) }
        }

        func testRejectionSamplingOfFewOptionsStopsTheProgram() throws {
            try stops {
                let decided = try decidedProbs(Decision(step: .expand(0), row: 0, draft: 0))
                _ = decided.ofToken(0)
            }
        }

        func testAProgramThatIsNotStoppedIsSeen() throws {
            XCTAssertFalse(try isStopped("nothing") {})
        }

        /// A verification whose source of randomness does not keep its promise: it refuses a decision, then skips it,
        /// though the probability of that is 0.
        private func verify(_ verifier: Verifier) throws {
            let trie = try toyCache(toyMap(), []).trie
            let proposal = translated([0], trie, maxTokens: 4)
            XCTAssertEqual(proposal.tokens, [0])
            let (random, buffers) = (Unkept([false, true]), OptionBuffers(trie))
            _ = try verifier(proposal, [even(draftTokens)], EvenRows(), trie, random, buffers)
        }

        private func decidedProbs(_ decision: Decision) throws -> any DecisionProbs {
            let trie = try toyCache(toyMap(), []).trie
            return decisionProbs(
                decision, q: even(draftTokens), p: even(targetTokens), trie: trie, buffers: OptionBuffers(trie))
        }

        private func stops(_ part: String = "", _ test: String = #function, _ body: () throws -> Void) throws {
            XCTAssert(try isStopped(part, test, body), "\(test) \(part)")
        }

        /// Whether a signal ended the process that ran `body`.
        private func isStopped(_ part: String, _ test: String = #function, _ body: () throws -> Void) throws -> Bool {
            let (asked, name) = ("OMNIDRAFT_BROKEN", "BrokenInvariantTests/\(test.prefix { $0 != "(" })")
            var environment = ProcessInfo.processInfo.environment
            if let now = environment[asked] {  // this is that process
                if now == name + part { try body() }
                return true
            }
            environment[asked] = name + part
            environment["SWIFT_BACKTRACE"] = "enable=no"
            let child = Process()
            child.executableURL = URL(fileURLWithPath: "/proc/self/exe")
            child.arguments = ["OmniDraftTests.\(name)"]
            child.environment = environment
            child.standardOutput = FileHandle.nullDevice
            child.standardError = FileHandle.nullDevice
            try child.run()
            child.waitUntilExit()
            return child.terminationReason == .uncaughtSignal
        }
    }

    private func even(_ tokens: [String]) -> any Distribution { Categorical(tokens.map { _ in 1 }) }

    private final class EvenRows: Probs {
        func callAsFunction(_ row: Int) throws -> any Distribution { even(targetTokens) }
    }

    /// Gives the answers that it was told, whatever the probability.
    private final class Unkept: SplitMix64 {
        private var answers: [Bool]

        init(_ answers: [Bool]) {
            self.answers = answers
            super.init(0)
        }

        override func bernoulli(_ probability: Double) -> Bool { answers.isEmpty ? false : answers.removeFirst() }
    }
#endif
