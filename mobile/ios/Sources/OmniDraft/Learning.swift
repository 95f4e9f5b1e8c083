/// Learning on this device, and releases that were learned elsewhere (spec/08-phones.md, The interface).
///
/// Learning is off until ``on()`` is called. None of these calls sends anything. Calls that take long do not block a
/// thread of Swift's own; ``pause()`` may be called from anywhere, also on the main thread.
public protocol Learning: Sendable {
    /// Records traces of the answers from now on, takes up what was learned or pulled, and allows steps.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)``: the session has no directory for traces.
    ///   ``OmniDraftError/traceFile(_:)``: another session records there (fault `in_use`), or nothing can be written.
    ///   ``OmniDraftError/adapter(_:)``: what was learned is refused; learning stays as it was.
    func on() async throws

    /// Stops recording for the answers until ``on()``.
    func pause()

    /// Stops recording and steps, and keeps what was learned.
    func off() async

    /// Deletes traces, learned adapter, state and cache.
    ///
    /// - Throws: ``OmniDraftError``: a learner is at work in the same directory, or the session writes a text.
    func wipe() async throws

    /// Runs the step graph on the traces; for idle time.
    ///
    /// Cancelling the task that waits for it ends the step within one call of the step graph; what was learned is kept.
    ///
    /// - Parameters:
    ///   - seconds: the budget, which is asked between calls of the step graph.
    ///   - freeMemory: bytes that the app may still use; long answers are cut so that a call fits, and where none
    ///     fits, the step is refused (fault `memory`). Nil: not looked at.
    /// - Returns: what it did.
    /// - Throws: ``OmniDraftError``: learning is off, the bundle has no training step, or a trace is refused.
    func step(seconds: Double, freeMemory: Int?) async throws -> LearnOutcome

    /// Where a store has the newest release for the models of this bundle: a relative path with `/`.
    ///
    /// - Throws: ``OmniDraftError/sync(_:)``: the bundle does not name its weights (fault `no_fingerprint`).
    func releaseName() throws -> String

    /// Verifies a release with the public key of ``LoadOptions``, compares its adapter and installs it (spec/15-sync.md).
    ///
    /// - Parameter release: the whole file, which the app fetched with its own means.
    /// - Returns: what became of the release.
    /// - Throws: ``OmniDraftError/sync(_:)``: the release is refused. What was in use stays.
    func pull(_ release: [UInt8]) async throws -> PullOutcome

    /// Goes back to the adapter that was used before.
    ///
    /// - Throws: ``OmniDraftError``: there is none, or a learner is at work in the same directory.
    func goBack() async throws

    /// What this device shares, in one file that it signs with a key of its own; the app uploads it with its own means
    /// (spec/15-sync.md).
    ///
    /// - Parameter parts: what is shared; nothing else is in the file.
    /// - Returns: the file.
    /// - Throws: ``OmniDraftError/setting(_:)``: there is nothing to share. ``OmniDraftError/sync(_:)``: the device's key
    ///   cannot be written.
    func push(_ parts: Set<PushPart>) async throws -> PushFile
}

/// The file of a push.
public struct PushFile: Sendable, Equatable {
    /// Where a store has it: a relative path with `/`. Its last part is the public key of this device, by which a
    /// publisher accepts it. A push replaces the one before.
    public let name: String
    /// The bytes.
    public let data: [UInt8]
}

extension Learning {
    /// Runs the step graph on the traces, without looking at the memory; see ``step(seconds:freeMemory:)``.
    ///
    /// - Parameter seconds: the budget.
    /// - Returns: what it did.
    /// - Throws: ``OmniDraftError``.
    public func step(seconds: Double) async throws -> LearnOutcome { try await step(seconds: seconds, freeMemory: nil) }
}

/// What a device shares.
public enum PushPart: Sendable, CaseIterable {
    /// The learned adapter: numbers that the drafter learned from what was said here.
    case adapter
    /// The n-grams: which of the target's tokens were said here, and how often; no text.
    case cache
    /// The traces: every prompt and answer in them, word for word.
    case traces
}

/// What ``Learning/step(seconds:freeMemory:)`` did.
public struct LearnOutcome: Sendable, Equatable {
    /// Steps of the optimiser in this call.
    public let steps: Int
    /// Whether all steps of the recorded traces were taken.
    public let isFinished: Bool
    /// Whether a learned adapter is in use now.
    public let uses: Bool
    /// Of the last step that changed the drafter; nil without one.
    public let loss: Double?
    /// Whether the adapter in use was worse than the one before, which is in use again.
    public let wentBack: Bool

    /// What a step did, such as one that a test of an app makes.
    public init(steps: Int, isFinished: Bool, uses: Bool, loss: Double? = nil, wentBack: Bool = false) {
        self.steps = steps
        self.isFinished = isFinished
        self.uses = uses
        self.loss = loss
        self.wentBack = wentBack
    }
}

/// What became of the newest release.
public enum PullOutcome: Sendable {
    /// Its adapter is in use now.
    case switched
    /// Its adapter was not better, so the one before stays in use.
    case kept
    /// It was installed before.
    case newest
    /// Its adapter was not better when it was compared before.
    case refusedBefore
    /// It has no adapter.
    case noAdapter
}
