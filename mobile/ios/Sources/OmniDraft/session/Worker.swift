import Dispatch

// Threads for work that blocks. Swift runs tasks on few threads, one for each core, and a task that computes or waits
// for a disk for seconds would take one away from all other tasks of the app. So a pass of a graph, the loading of a
// bundle and a learning step run on a queue, and the task that asked for them only waits for its answer.

/// Runs work that blocks, one piece after another, outside of Swift's own threads.
final class Worker: Sendable {
    private let queue: DispatchQueue

    /// - Parameter name: of the queue, for a debugger.
    init(_ name: String) { queue = DispatchQueue(label: "omnidraft.\(name)", qos: .userInitiated) }

    /// Runs something behind what was begun earlier, and waits for it without a thread.
    func run<T: Sendable>(_ work: @escaping @Sendable () throws -> T) async throws -> T {
        let job = Job(work)
        return try await withCheckedThrowingContinuation { answer in
            queue.async { answer.resume(with: job.done()) }
        }
    }

    /// The same of something that cannot fail.
    func answer<T: Sendable>(_ work: @escaping @Sendable () -> T) async -> T {
        await withCheckedContinuation { answer in
            queue.async { answer.resume(returning: work()) }
        }
    }

    /// Runs something behind what was begun earlier; nobody waits for it.
    func begin(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }
}

/// Work that is done once. What it holds is released before its answer arrives: who drops a session and opens another one
/// on the same directory must not find the first one there.
private final class Job<T: Sendable>: @unchecked Sendable {
    private var work: (@Sendable () throws -> T)?

    init(_ work: @escaping @Sendable () throws -> T) { self.work = work }

    func done() -> Result<T, any Error> {
        guard let work else { return .failure(ValueError("this work was done before")) }
        self.work = nil
        return Result { try work() }
    }
}

/// Waits on this thread for something that is asynchronous. Only for work of a ``Worker``: on a thread of Swift's own it
/// could wait for itself.
func waitFor<T: Sendable>(_ work: @escaping @Sendable () async throws -> T) throws -> T {
    let done = DispatchSemaphore(value: 0)
    let found = Guarded<Result<T, any Error>?>(nil)
    Task {
        let result: Result<T, any Error>
        do { result = .success(try await work()) } catch { result = .failure(error) }
        found.with { $0 = result }
        done.signal()
    }
    done.wait()
    guard let result = found.with({ $0 }) else { throw ValueError("there is no answer") }
    return try result.get()
}
