import OmniDraft

/// What the screen needs of the library; ``LibraryEngine`` is the library.
protocol Engine: Sendable {
    /// The bundles that the app brings along.
    var inApp: [Choice] { get }
    /// The bundle that learns in idle time; nil where learning was not switched on.
    var learner: Choice? { get }

    /// Unpacks a bundle, where it is not unpacked yet, and opens it.
    ///
    /// - Parameters:
    ///   - choice: the bundle.
    ///   - onProgress: gets bytes so far, and bytes in all; from any thread.
    func open(
        _ choice: Choice, onProgress: @escaping @Sendable (_ done: Int, _ all: Int) -> Void
    ) async throws -> any Talk
}

/// An open bundle with one session.
protocol Talk: Sendable {
    /// What the library says about it; nil if all is as asked for.
    var notice: String? { get }
    /// Counts of the conversation, also of the answer that runs; from any thread.
    var stats: Stats { get }
    /// Why the last answer ended.
    var stopReason: StopReason? { get }
    /// Whether learning is on, since it was on when the bundle was used before.
    var learns: Bool { get }

    /// Answers a message.
    func answer(_ message: String, _ speed: Speed) -> AsyncThrowingStream<Piece, any Error>
    /// Saves the conversation and what the cache learned.
    func save() async throws
    /// Ends the answer after the pass that runs; from any thread.
    func cancel()
    /// Records answers and learns from them, or stops and keeps what was learned.
    func learn(_ isOn: Bool) async throws
    /// Learns from the recorded answers for some seconds; cancelling the task ends it.
    func step(seconds: Double) async throws -> LearnOutcome
    /// Deletes all that was recorded and learned; learning is off then.
    func wipe() async throws
    /// Passes the thermal state on: 0 nothing, 1 no learning, 2 pauses, 3 waits; from any thread.
    func throttle(_ level: Int)
    /// Frees the drafter's memory; from any thread.
    func dropDrafter()
    /// Loads the drafter again, for the next answer.
    func loadDrafter() async throws
    /// Writes one text of its own without drafts and with them; the conversation stays as it is.
    func benchmark(heat: Int) async throws -> Benchmark
}
