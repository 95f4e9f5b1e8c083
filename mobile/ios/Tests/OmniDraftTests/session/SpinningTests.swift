import XCTest

@testable import OmniDraftORT

/// Options of sessions: how long the threads of a pass spin.
final class SpinningTests: XCTestCase {
    func testThreadsSleepSoonAfterAPassInEveryEngine() {
        for engine in ["1.23.0", "1.25.1", "1", ""] {
            let entry = spinning(engine)
            XCTAssertEqual([entry.key, entry.value], ["session.force_spinning_stop", "1"], engine)
        }
        for engine in ["1.26.0", "1.31.1", "2.0.0", "1.32.0-dev"] {
            let entry = spinning(engine)
            XCTAssertEqual([entry.key, entry.value], ["session.intra_op.spin_duration_us", "200"], engine)
        }
    }
}
