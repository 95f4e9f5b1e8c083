import XCTest

@testable import OmniDraft

/// The expansion beside values of published tables of Student's t.
final class StudentTTests: XCTestCase {
    func testTwoSided95Percent() {
        for (freedom, t) in [(7.0, 2.364624), (10, 2.228139), (30, 2.042272), (120, 1.979930)] {
            XCTAssertEqual(studentT(normal95, freedom), t, accuracy: 8e-4, "\(freedom) degrees")
        }
    }
}
