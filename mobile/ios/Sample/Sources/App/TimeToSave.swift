import UIKit

/// The seconds that the system gives an app that leaves the foreground.
@MainActor
final class TimeToSave {
    private var identifier = UIBackgroundTaskIdentifier.invalid

    /// Ends the answer that runs and saves the conversation, before the system suspends the app.
    static func leave(_ model: ScreenModel) {
        let time = TimeToSave()
        time.identifier = UIApplication.shared.beginBackgroundTask(withName: "save") { time.end() }
        Task {
            await model.leave()
            time.end()
        }
    }

    private func end() {
        guard identifier != .invalid else { return }
        UIApplication.shared.endBackgroundTask(identifier)
        identifier = .invalid
    }
}
