#if canImport(UIKit)
    import SwiftUI
    import UIKit
    import XCTest

    @testable import OmniDraftSample

    /// What the system says, what a view draws.
    @MainActor
    final class AppTests: XCTestCase, @unchecked Sendable {  // as ScreenModelTests
        func testAWarningOfTheSystemDropsTheDrafter() async throws {
            let desk = try await Desk().open()
            let signals = DeviceSignals(desk.model)
            XCTAssertTrue(desk.model.hasDrafter)
            NotificationCenter.default.post(name: UIApplication.didReceiveMemoryWarningNotification, object: nil)
            try await desk.until { !$0.hasDrafter }
            desk.model.thermal(3)
            NotificationCenter.default.post(name: ProcessInfo.thermalStateDidChangeNotification, object: nil)
            try await desk.until { $0.heat < 3 }
            withExtendedLifetime(signals) {}
        }

        func testDraftedTextIsTinted() async {
            let text = tinted([Span(text: "one ", drafted: 0), Span(text: "two", drafted: 0.5)])
            XCTAssertEqual(String(text.characters), "one two")
            XCTAssertEqual(text.runs.map { $0.swiftUI.backgroundColor == nil }, [true, false])
        }

        func testTheSparklineIsALine() async {
            let area = CGRect(x: 0, y: 0, width: 590, height: 10)
            let path = Sparkline(values: [0, 1, 0.5]).path(in: area)
            XCTAssertEqual(path.currentPoint, CGPoint(x: 570, y: 10))  // the oldest is drawn last
            XCTAssertEqual(path.boundingRect, CGRect(x: 570, y: 0, width: 20, height: 10))
            XCTAssertTrue(Sparkline(values: []).path(in: area).isEmpty)
        }
    }
#endif
