import XCTest

@testable import OmniDraft

/// The cut at stop strings and end tokens, on the rounds of the vectors `stop`: what a generation adds, limits and reasons,
/// is not compared here.
final class StopTextTests: XCTestCase {
    func testRoundsAreCutAtTheFirstEnd() throws {
        var ended = 0
        for vector in try vectorsOf("stop") where vector.expected["refused"] == nil {
            let (given, expected) = (vector.input, vector.expected)
            let text = try StopText(given["stop"]!.strings)
            let eosIds = Set(given["eos_ids"]!.int32s)
            let bytes = given["bytes"]!.object
            var written = ""
            for (round, due) in zip(given["rounds"]!.array, expected["emitted"]!.array) {
                let emitted = cutAtStop(round.int32s, eosIds, text) { bytes["\($0)"]!.hex }
                XCTAssertEqual(emitted.tokens, due.int32s, "\(vector.name): \(vector.why)")
                written += text.take()
                if emitted.ended { break }
            }
            if !expected["reason"]!.isNull { written += text.end() }
            XCTAssertEqual(Array(written.utf8), Array(expected["text"]!.string.utf8), "\(vector.name): \(vector.why)")
            XCTAssertEqual(text.matched, expected["stop_string"]!.optional?.string, vector.name)
            XCTAssertEqual(text.start, expected["stop_start"]!.optional?.int, vector.name)
            ended += text.matched == nil ? 0 : 1
        }
        XCTAssertGreaterThan(ended, 0)
    }

    func testAnEmptyStopStringIsRefused() throws {
        let refused = try vectorsOf("stop").filter { $0.expected["refused"] != nil }
        XCTAssertFalse(refused.isEmpty)
        for vector in refused {
            XCTAssertThrowsError(try StopText(vector.input["stop"]!.strings), vector.name) {
                guard case OmniDraftError.setting = $0 else { return XCTFail("\($0)") }
            }
        }
    }
}
