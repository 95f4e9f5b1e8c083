import Dispatch

// Threads for work that blocks. Swift runs tasks on few threads, one for each core, and a task that computes or waits
// for a disk for seconds would take one away from all other tasks of the app. So a pass of a graph, the loading of a
// bundle and a learning step run on a queue, and the task that asked for them only waits for its answer.

/// Runs work that blocks, one piece after another, outside of Swift's own threads.
final class Worker: Sendable {
    private let queue: DispatchQueue
    private let behind = Guarded(0)

    /// Pieces of work that have not begun.
    var waiting: Int { behind.with { $0 } }

    init(_ name: String) { queue = DispatchQueue(label: "omnidraft.\(name)", qos: .userInitiated) }

    /// Runs something behind what was begun earlier, and waits for it without a thread.
    func run<T: Sendable>(_ work: @escaping @Sendable () throws -> T) async throws -> T {
        try await answer { Result { try work() } }.get()
    }

    /// The same of something that cannot fail.
    func answer<T: Sendable>(_ work: @escaping @Sendable () -> T) async -> T {
        let job = Job(work)
        return await withCheckedContinuation { answer in
            begin { job.done { answer.resume(returning: $0) } }
        }
    }

    /// Runs something behind what was begun earlier; nobody waits for it.
    func begin(_ work: @escaping @Sendable () -> Void) {
        behind.with { $0 += 1 }
        queue.async { [behind] in
            behind.with { $0 -= 1 }
            work()
        }
    }
}

/// Work that is done once. What it holds is released before its answer arrives: who drops a session and opens another one
/// on the same directory must not find the first one there.
private final class Job<T: Sendable>: @unchecked Sendable {
    private var work: (@Sendable () -> T)?

    init(_ work: @escaping @Sendable () -> T) { self.work = work }

    func done(_ answer: (T) -> Void) {
        if let result = result() { answer(result) }
    }

    // A function of its own: its reference to the work ends before the answer is given.
    private func result() -> T? {
        guard let work else { return nil }
        self.work = nil
        return work()
    }
}
