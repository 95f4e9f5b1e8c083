// How the pieces of a generation reach an app: one for each time that the reader of a stream asks.
//
// Nothing runs ahead of the reader, so a slow one costs no memory, and a session is at rest between two pieces: it can
// be saved there. Where several tasks use a session, the one that comes second is refused at once.

/// Who uses a session, and the queue on which its models run.
final class Desk: Sendable {
    /// The session; only work of the queue uses what is not safe from any thread.
    let session: SessionCore
    /// Records the session's texts, so a text that is being written keeps it.
    let learning: any Learning
    private let worker = Worker("session")
    private let pauses = Worker("pause")

    private struct State {
        var users = 0  // calls that run or wait for the queue
        var writing: Writing?  // the text that is not at its end
    }

    private let state = Guarded(State())

    init(_ session: SessionCore, _ learning: any Learning) {
        self.session = session
        self.learning = learning
    }

    /// Runs something while no round runs. While the text of a stream is not at its end, `between` has to be true.
    ///
    /// - Throws: ``OmniDraftError/session(_:)``: another task is using the session.
    func alone<T: Sendable>(
        between: Bool = false, _ work: @escaping @Sendable (SessionCore) throws -> T
    ) async throws -> T {
        let before = try state.with { now in
            if now.users > 0 || !(between || isFree(now)) { throw Desk.inUse }
            now.users += 1
            return now.writing
        }
        defer { leave() }
        return try await worker.run {
            try self.settle(before)
            return try work(self.session)
        }
    }

    /// Runs something behind all that runs; it changes nothing.
    func ask<T: Sendable>(_ work: @escaping @Sendable (SessionCore) -> T) async -> T {
        let before = state.with { $0.writing }
        return await worker.answer {
            self.settleIfFree(before)
            return work(self.session)
        }
    }

    /// Waits before a round while the device is warm; not on the queue, so that the session answers and can be saved.
    func pause(_ generation: Generation) async {
        // One that was cancelled must not wait behind the next one's pause.
        if session.models.throttle.level == 0 || generation.isCancelled { return }
        await pauses.answer { generation.pause() }
    }

    /// The next piece of a stream; nil at its end, or where the session went on without it.
    func piece(_ writing: Writing, isFirst: Bool) async throws -> Piece? {
        let (isWriting, before) = try state.with { now in
            let before = now.writing
            if isFirst {
                if now.users > 0 || !isFree(now) { throw Desk.inUse }
                now.writing = writing
            }
            now.users += 1
            return (now.writing === writing, before)
        }
        defer { leave() }
        if !isWriting { return await worker.answer { writing.rest() } }
        do {
            let piece = try await worker.run {
                if isFirst { try self.settle(before) }
                return try writing.piece(self.session)
            }
            if piece == nil { end(writing) }
            return piece
        } catch {
            end(writing)
            throw error
        }
    }

    func cancel() { state.with { $0.writing }?.cancel() }

    /// Brings a cancelled text to its end that nobody reads any more.
    func abandon(_ writing: Writing) {
        end(writing)
        worker.begin { self.settleIfFree(nil) }
    }

    /// Why the last generation ended; nil while it runs. From any thread.
    var stopReason: StopReason? {
        guard let answer = session.answer else { return nil }
        if let reason = answer.stopReason { return reason }
        // A cancelled text that is read no further has no round that would say so.
        return answer.isCancelled && state.with({ $0.users }) == 0 ? .cancelled : nil
    }

    private static let inUse = sessionError(
        "this session is in use by another task",
        "read its stream to the end, cancel it, or give each task its own session on the same model")

    private func isFree(_ now: State) -> Bool { now.writing?.isCancelled ?? true }

    private func leave() { state.with { $0.users -= 1 } }

    private func end(_ writing: Writing) { state.with { if $0.writing === writing { $0.writing = nil } } }

    /// Ends a generation that was cancelled between two rounds: no graph runs for it. Its last text is for its reader.
    private func settle(_ writing: Writing?) throws {
        guard let answer = session.answer, answer.isCancelled, answer.stopReason == nil else { return }
        if let writing, writing.writes(answer) { return try writing.drain() }
        try answer.finish()
    }

    /// The same for callers that have no use for an error: the next one that has meets it.
    private func settleIfFree(_ writing: Writing?) {
        do { try settle(writing) } catch { return }
    }
}

/// What a stream holds: its release says that nobody reads the text any more. Nothing else holds it, so that happens in
/// the reader's task, before that task can begin another text.
final class Reader: Sendable {
    private let writing: Writing

    init(_ writing: Writing) { self.writing = writing }

    deinit { writing.abandon() }

    /// The next piece; nil at the end. Cancelling the task cancels the text.
    func next() async throws -> Piece? { try await writing.next() }
}

/// The text of one stream. Cancelling and the flags are safe from any thread; all else is work of the session's queue.
final class Writing: @unchecked Sendable {
    private struct State {
        var generation: Generation?
        var hasBegun = false
        var isCancelled = false
        var isOver = false
    }

    private let desk: Desk
    private let begin: @Sendable (SessionCore) throws -> Generation
    private let state = Guarded(State())
    private var last: [Piece] = []  // of a generation that was ended for another caller

    init(_ desk: Desk, _ begin: @escaping @Sendable (SessionCore) throws -> Generation) {
        self.desk = desk
        self.begin = begin
    }

    /// A text that nobody reads to its end is cancelled.
    func abandon() {
        if state.with({ $0.isOver || !$0.hasBegun }) { return }
        cancel()
        desk.abandon(self)
    }

    var isCancelled: Bool { state.with { $0.isCancelled } }

    /// The next piece for the reader; cancelling the reader's task cancels the text.
    func next() async throws -> Piece? {
        let (isFirst, isOver) = state.with { now in
            defer { now.hasBegun = true }
            return (!now.hasBegun, now.isOver)
        }
        if isOver { return nil }
        do {
            let piece = try await withTaskCancellationHandler {
                if let generation = state.with({ $0.generation }) { await desk.pause(generation) }
                return try await desk.piece(self, isFirst: isFirst)
            } onCancel: {
                cancel()
            }
            if piece == nil { end() }
            return piece
        } catch {
            end()
            throw error
        }
    }

    /// Ends the text within one run of a graph.
    func cancel() {
        let generation = state.with { now in
            now.isCancelled = true
            return now.generation
        }
        if let generation, generation.stopReason == nil { generation.cancel() }
    }

    /// Whether the text is that of a generation.
    func writes(_ generation: Generation) -> Bool { state.with { $0.generation === generation } }

    /// The next piece, of a generation that begins with the first.
    func piece(_ session: SessionCore) throws -> Piece? {
        if !last.isEmpty { return last.removeFirst() }
        guard let generation = try generation(session) else { return nil }
        return try generation.next()
    }

    /// What was written and not read, of a text that ended for another caller.
    func rest() -> Piece? { last.isEmpty ? nil : last.removeFirst() }

    /// Runs a cancelled generation to its end; its reader gets the pieces.
    func drain() throws {
        guard let generation = state.with({ $0.generation }) else { return }
        while let piece = try generation.next() { last.append(piece) }
    }

    private func generation(_ session: SessionCore) throws -> Generation? {
        if let generation = state.with({ $0.generation }) { return generation }
        if isCancelled { return nil }
        let generation = try begin(session)
        let isCancelled = state.with { now in
            now.generation = generation
            return now.isCancelled
        }
        if isCancelled { generation.cancel() }
        return generation
    }

    private func end() { state.with { $0.isOver = true } }
}

extension GenerationResult {
    /// What a generation wrote; nil before its end.
    init?(_ generation: Generation) {
        guard let reason = generation.stopReason else { return nil }
        text = generation.text
        thought = generation.thought
        answer = generation.answer
        tokenIds = generation.tokenIds
        stopReason = reason
        stats = generation.statistics.stats(answers: 1)
        logprobs = generation.logprobs
        droppedTurns = generation.droppedTurns
        calls = generation.calls
    }
}
