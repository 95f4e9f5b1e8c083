import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// Read from a web server. Nothing that a server sends is taken without a bound: of time, of speed, and, by who takes
// it, of bytes.

private let leastBytes = 1024.0  // a second

struct Web: Sendable {
    /// Over which a transfer must bring 1,024 bytes a second; the header of an answer may take twice as long.
    var seconds = 10.0
}

/// Takes what a server answers. Its functions are called one after another; an error of one of them ends the transfer.
protocol WebAnswer: AnyObject {
    func begin(_ answer: HTTPURLResponse) throws
    func add(_ data: Data) throws
}

/// One request. Its state is used on its serial queue only, but for what the lock holds.
final class WebRead: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    private let address: URL
    private let web: Web
    private let answer: any WebAnswer
    private let queue = OperationQueue()
    private let running = Guarded<(task: URLSessionTask?, isCancelled: Bool)>((nil, false))
    private var continuation: CheckedContinuation<Void, any Error>?
    private var refusal: (any Error)?  // why the transfer was cancelled here
    private var hasAnswer = false
    private var began = seconds()
    private var counted = 0

    init(_ address: URL, _ web: Web, _ answer: any WebAnswer) {
        self.address = address
        self.web = web
        self.answer = answer
        queue.maxConcurrentOperationCount = 1
    }

    /// Reads to the end of the answer; cancelling the task that waits for it ends the transfer.
    ///
    /// - Parameter from: the first byte that is asked for.
    func run(from: Int = 0) async throws {
        var request = URLRequest(url: address, cachePolicy: .reloadIgnoringLocalCacheData)
        request.setValue("omnidraft", forHTTPHeaderField: "User-Agent")
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        if from > 0 { request.setValue("bytes=\(from)-", forHTTPHeaderField: "Range") }
        let settings = URLSessionConfiguration.ephemeral
        settings.timeoutIntervalForRequest = web.seconds
        let session = URLSession(configuration: settings, delegate: self, delegateQueue: queue)
        let task = session.dataTask(with: request)
        running.with { $0.task = task }
        defer { session.finishTasksAndInvalidate() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                queue.addOperation { self.start(task, continuation) }
                waitForAnswer()
            }
        } onCancel: {
            running.with { $0.isCancelled = true }
            cancel()
        }
    }

    private func start(_ task: URLSessionTask, _ continuation: CheckedContinuation<Void, any Error>) {
        // The end of a task that was cancelled before it began may have been told already.
        if running.with({ $0.isCancelled }) { return continuation.resume(throwing: CancellationError()) }
        self.continuation = continuation
        task.resume()
    }

    private func cancel() { running.with { $0.task }?.cancel() }

    /// A header that comes byte by byte has no bound of its own, so it is waited for here.
    private func waitForAnswer() {
        let late = "its answer did not begin within \(Int(2 * web.seconds)) s"
        DispatchQueue.global().asyncAfter(deadline: .now() + 2 * web.seconds) { [weak self] in
            self?.queue.addOperation { [weak self] in
                guard let self, !self.hasAnswer, self.continuation != nil else { return }
                self.stop(FileError(late))
            }
        }
    }

    private func stop(_ error: any Error) {
        if refusal == nil { refusal = error }
        cancel()
    }

    /// An address of HTTPS leads to no other kind.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(request.url?.scheme == address.scheme ? request : nil)
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        hasAnswer = true
        began = seconds()
        do {
            guard let response = response as? HTTPURLResponse else { throw FileError("no web server has it") }
            try answer.begin(response)
            completionHandler(.allow)
        } catch {
            refusal = error
            completionHandler(.cancel)
        }
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        if refusal != nil { return }
        do {
            try answer.add(data)
            try checkPace(data.count)
        } catch {
            stop(error)
        }
    }

    /// Gives up a transfer that is too slow.
    private func checkPace(_ count: Int) throws {
        counted += count
        let passed = seconds() - began
        if passed < web.seconds { return }
        if Double(counted) < leastBytes * passed {
            throw FileError("it brings less than \(Int(leastBytes)) bytes a second")
        }
        began = seconds()
        counted = 0
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let told: (any Error)? = refusal ?? error.map { FileError(reason(FileError($0.localizedDescription))) }
        let failure = running.with { $0.isCancelled } ? CancellationError() : told
        if let failure { continuation?.resume(throwing: failure) } else { continuation?.resume() }
        continuation = nil
    }
}
