import Foundation
import OmniDraftORT
import XCTest

@testable import OmniDraft

/// Many short answers in one process, and what opening takes. OMNIDRAFT_SOAK is the number of answers; OMNIDRAFT_OPEN is
/// a bundle or the file of a tokenizer. Without them nothing is measured.
final class SoakTests: XCTestCase {
    private let bound = 8 << 20  // bytes

    /// Every third answer is cancelled, every tenth drops and loads its drafter, each fiftieth begins a new session.
    /// The resident memory of the last quarter must not be above that of the second by more than a bound.
    func testManyAnswersTakeNoMoreMemoryThanSome() throws {
        guard let count = ProcessInfo.processInfo.environment["OMNIDRAFT_SOAK"].flatMap({ Int($0) }) else {
            throw XCTSkip("OMNIDRAFT_SOAK is not set")
        }
        let loaded = try StarterBundles.load("a")
        var samples: [Int] = []
        var session = try SessionCore(loaded)
        for number in 1...count {
            if number % 50 == 0 { session = try SessionCore(loaded) }
            try answer(session, number)
            if number % max(1, count / 20) == 0 { samples.append(residentBytes()) }
        }
        print("\(count) answers; resident \(samples.map { $0 >> 20 }) MiB")
        let quarter = samples.count / 4
        guard quarter > 0, let early = samples[quarter..<2 * quarter].max(), let late = samples.suffix(quarter).max()
        else { return XCTFail("too few answers") }
        XCTAssertLessThanOrEqual(late - early, bound)
    }

    private func answer(_ session: SessionCore, _ number: Int) throws {
        let temperature = number % 2 == 0 ? 1.0 : 0
        let config = GenerationConfig(maxNewTokens: 12, temperature: temperature, seed: UInt64(number))
        let answer = try session.generate("How many legs do \(number) cats have?", config)
        _ = try answer.next()
        if number % 10 == 0 { session.models.dropDrafter() }
        if number % 3 == 0 { answer.cancel() }
        try answer.finish()
        if number % 10 == 0 { try session.models.loadDrafter() }
    }
}
