import Foundation

// Learning of one session, as an app sees it (spec/08-phones.md, The interface). The adapter in use is the learned one, else
// that of a release, else that of the session's options. None of the calls sends anything.

private let releasesName = "releases"
private let mostSeconds = 1e6

/// Learning of a session.
///
/// - Parameter publicKey: of the publisher of releases; without one no release is taken.
func learningOf(session: SessionCore, options: SessionOptions, publicKey: [UInt8]? = nil) -> any Learning {
    LearningController(session, options, publicKey: publicKey)
}

/// Learning of a session; see ``Learning``. The calls that read or write files run one after another on a ``Worker``;
/// what several threads read and write is behind a lock.
final class LearningController: Learning, @unchecked Sendable {
    private struct Recording {
        var isOn = false
        var isPaused = false  // since the last call of on()
        var offs = 0  // calls of off() that were not carried out yet
        var store: TraceStore?
    }

    let session: SessionCore
    let options: SessionOptions
    let publicKey: [UInt8]?
    private let adapting: AdaptOptions
    private let user: SessionUser
    /// The adapter of the options, which is used where nothing was learned or pulled.
    private let given: Adapter?
    private let recording = Guarded(Recording())
    let worker = Worker("learning")

    init(
        _ session: SessionCore, _ options: SessionOptions, publicKey: [UInt8]? = nil,
        adapting: AdaptOptions = AdaptOptions()
    ) {
        self.session = session
        self.options = options
        self.publicKey = publicKey
        self.adapting = adapting
        user = SessionUser(session)
        given = session.models.adapters[.drafter]
    }

    deinit { recording.with { $0.store }?.close() }

    func on() async throws {
        recording.with { $0.isPaused = false }
        try await worker.run { try self.begin() }
    }

    func pause() {
        recording.with { now in
            now.isPaused = true
            now.store?.pause()
        }
    }

    func off() async {
        recording.with { $0.offs += 1 }  // ends a step that is running
        await withCheckedContinuation { done in
            worker.begin {
                self.end()
                done.resume()
            }
        }
    }

    func wipe() async throws { try await worker.run { try self.forget() } }

    func step(seconds: Double, freeMemory: Int?) async throws -> LearnOutcome {
        let isCancelled = Guarded(false)
        return try await withTaskCancellationHandler {
            try await worker.run { try self.learn(seconds, freeMemory) { isCancelled.with { $0 } } }
        } onCancel: {
            isCancelled.with { $0 = true }
        }
    }

    func goBack() async throws {
        try await worker.run {
            try self.directory().claimed {
                try self.releases().goBack(own: self.learned()?.used)
                try self.directory().wipe()
            }
            try self.useAdapter()
        }
    }

    private func begin() throws {
        let known = recording.with { $0.store }
        let store = try known ?? TraceStore(traces(), Vocabularies(session.vocabMap))
        do {
            try useAdapter()
        } catch {
            if known == nil { store.close() }
            throw error
        }
        recording.with { now in
            if now.isPaused { store.pause() } else { store.resume() }
            (now.isOn, now.store) = (true, store)
        }
        session.trace = store
    }

    private func end() {
        session.trace = nil
        let store = recording.with { now in
            defer { (now.isOn, now.store) = (false, nil) }
            now.offs -= 1
            return now.store
        }
        store?.close()
    }

    private func forget() throws {
        let directory = try directory()
        try directory.claimed {
            try session.turn { try session.resetCache() }
            try wipeCache()
            try wipeTraces()
            try directory.wipe()
            try releases().forgetOwn()
        }
        try useAdapter()
    }

    private func learn(
        _ limit: Double, _ freeMemory: Int?, _ isCancelled: @escaping () -> Bool
    ) throws -> LearnOutcome {
        if !(limit >= 0) { throw settingError("seconds \(limit) is not a number of at least 0") }
        if recording.with({ !$0.isOn }) { throw sessionError("learning is off", "turn it on first") }
        let end = seconds() + min(limit, mostSeconds)
        let (recording, throttle) = (recording, session.models.throttle)
        let budget = StepBudget {
            seconds() < end && throttle.level == 0 && !isCancelled() && recording.with { $0.offs == 0 }
        }
        let most = try freeMemory.map { try lengthWithin(session.bundle, freeMemory: $0) }
        let adapted = try adaptation(maxLength: most).step(user, begun: ofSession(), budget)
        return LearnOutcome(
            steps: adapted.steps, isFinished: adapted.isFinished, uses: adapted.usesLearned, loss: adapted.losses.last,
            wentBack: adapted.events.contains(.rolledBack))
    }

    private func wipeTraces() throws {
        if let store = recording.with({ $0.store }) {
            try store.wipe()
        } else if isDirectory(try traces()) {
            let store = try TraceStore(traces(), Vocabularies(session.vocabMap))
            defer { store.close() }
            try store.wipe()
        }
    }

    private func wipeCache() throws {
        guard let cache = options.cache?.path, unlink(cache) != 0, errno != ENOENT else { return }
        let message = "\(cache) cannot be deleted (\(systemError(errno).message))"
        throw cacheError("unwritable", message, "check its permissions")
    }

    /// Draft with the adapter that is in use by the files on the disk.
    func useAdapter() throws {
        let learned = session.bundle.drafter.train == nil ? nil : try learned()
        try user.useDrafterAdapter(learned.map(\.adapter) ?? ofSession())
    }

    /// The adapter that learning begins with: that in use where nothing was learned.
    private func ofSession() throws -> Adapter? { try releases().adapter() ?? given }

    /// What was learned so far; nil where nothing was.
    func learned() throws -> LearningCheckpoint? { try adaptation().checkpoint() }

    private func adaptation(maxLength: Int? = nil) throws -> Adaptation {
        Adaptation(
            engine: session.loaded.engine, bundle: session.bundle, map: session.vocabMap, directory: try directory(),
            traces: try traces(),
            options: adapting.within(maxLength), now: { utc() })
    }

    func releases() throws -> DeviceReleases { DeviceReleases(joined(try directory().place, releasesName)) }

    func directory() throws -> LearnedDirectory {
        LearnedDirectory(try options.learned?.path ?? traces() + ".learned")
    }

    func traces() throws -> String {
        guard let traces = options.traces else {
            let message = "the session has no directory for traces, so nothing can be learned"
            throw settingError(message, "give one in its options")
        }
        return traces.path
    }
}

/// A session as learning uses it.
final class SessionUser: AdapterUser {
    let session: SessionCore

    init(_ session: SessionCore) { self.session = session }

    var targetAdapter: String? { session.models.adapters[.target]?.digest }
    var isAnswering: Bool { session.answer.map { $0.stopReason == nil } ?? false }

    func useDrafterAdapter(_ adapter: Adapter?) throws { try session.useAdapter(adapter, .drafter) }
}
