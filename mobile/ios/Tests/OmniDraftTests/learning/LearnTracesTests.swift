import XCTest

@testable import OmniDraft

/// The order of a pass, and the ranges of its options.
final class LearnTracesTests: XCTestCase {
    func testEachPassTakesAllResponsesInItsOwnOrderWhichTheSeedDecides() {
        let options = LearnOptions(batchSize: 4)
        for count in [1, 4, 13, 64] {
            let each = (count + 3) / 4
            let passes = (0..<3).map { pass in (0..<each).map { batchOf(pass * each + $0, count, options) } }
            for pass in passes {
                XCTAssertEqual(pass.flatMap { $0 }.sorted(), Array(0..<count))
                XCTAssert(pass.dropLast().allSatisfy { $0.count == 4 })
            }
            if count > 4 { XCTAssertEqual(Set(passes.map { $0.flatMap { $0 } }).count, 3) }
            XCTAssertEqual(passes[1][0], batchOf(each, count, options))  // a step can be made again
        }
        let other = LearnOptions(step: StepOptions(seed: 1), batchSize: 64)
        XCTAssertNotEqual(batchOf(0, 64, LearnOptions(batchSize: 64)), batchOf(0, 64, other))
    }

    func testOptionsOutsideTheirRangesAreRefused() {
        let wrong = [
            LearnOptions(steps: 0), LearnOptions(batchSize: 0), LearnOptions(schedule: "sometimes"),
            LearnOptions(maxLength: 1), LearnOptions(step: StepOptions(learningRate: .nan)),
            LearnOptions(step: StepOptions(loraAlpha: 0)), LearnOptions(step: StepOptions(objective: "none")),
        ]
        for options in wrong {
            XCTAssertThrowsError(try options.check()) { error in
                guard case OmniDraftError.setting = error else { return XCTFail("\(error)") }
            }
        }
        XCTAssertNoThrow(try LearnOptions().check())
    }
}
