import Foundation
import UIKit

/// Listens to what the system says of its memory and its heat, as long as the app runs.
@MainActor
final class DeviceSignals {
    private var observers: [any NSObjectProtocol] = []

    init(_ model: ScreenModel) {
        listen(UIApplication.didReceiveMemoryWarningNotification) { model.lowMemory() }
        listen(ProcessInfo.thermalStateDidChangeNotification) { model.thermal(thermalState()) }
        model.thermal(thermalState())
    }

    private func listen(_ name: Notification.Name, _ tell: @escaping @MainActor @Sendable () -> Void) {
        let observer = NotificationCenter.default.addObserver(forName: name, object: nil, queue: .main) { _ in
            MainActor.assumeIsolated(tell)  // the queue is the main one
        }
        observers.append(observer)
    }
}

private func thermalState() -> Int { ProcessInfo.processInfo.thermalState.rawValue }
