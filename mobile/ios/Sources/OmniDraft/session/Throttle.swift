import Foundation

private let slower = 2
private let paused = 3
private let longestPause = 10.0  // seconds

/// How much an app lets a session do while the device is warm (spec/08-phones.md, Backgrounding). No level changes the
/// text. From any thread.
final class Throttle: @unchecked Sendable {
    private let state = Guarded(0)
    private let signal = DispatchSemaphore(value: 0)

    /// 0: nothing changes; 1: no learning; 2: also a pause of one pass's length between rounds; 3: paused.
    var level: Int {
        get { state.with { $0 } }
        set {
            state.with { $0 = min(max(newValue, 0), paused) }
            wake()
        }
    }

    /// Wakes who waits, to ask again whether it was cancelled.
    func wake() { signal.signal() }

    /// Waits between two rounds.
    ///
    /// - Parameter pass: seconds of a pass.
    func pause(_ pass: Double, isCancelled: () -> Bool) {
        let until = seconds() + min(pass, longestPause)
        while !isCancelled() {
            let level = level
            let left = until - seconds()
            if level < slower || (level < paused && !(left > 0)) { return }
            // A signal that nobody waited for only asks once more.
            _ = signal.wait(timeout: level >= paused ? .distantFuture : .now() + left)
        }
    }
}
