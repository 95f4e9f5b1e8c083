import Foundation

/// A text or a conversation on a model.
///
/// One task at a time uses a session; a second one is refused at once. ``cancel()``, ``throttle(_:)``,
/// ``dropDrafter()``, ``loadDrafter()``, ``stats``, ``notices`` and ``stopReason`` may be used from any task at any
/// time. The models run on a queue of the session, never on a thread of Swift's own.
///
/// The functions that write text give a stream. The text begins when its first piece is asked for, and goes on by one
/// round for each further one: nothing runs ahead of a slow reader, and the session can be saved between two pieces. A
/// stream that is not read to its end is cancelled when it is released, and cancelling the task that reads it ends the
/// text within one run of a graph. Refusals of a prompt or a setting come before the first piece, and change nothing.
public final class TextSession: Sendable {
    private let inner: SessionCore
    private let desk: Desk
    private let publicKey: [UInt8]?

    init(_ loaded: LoadedBundle, _ options: SessionOptions, publicKey: [UInt8]?) throws {
        let cache = try options.cache.map { try pathOf($0, "cache") }
        let adapter = try options.adapter.map { try pathOf($0, "adapter") }
        _ = try options.traces.map { try pathOf($0, "traces") }
        _ = try options.learned.map { try pathOf($0, "learned") }
        inner = try SessionCore(loaded, cache: cache, adapter: adapter)
        inner.dropsOldest = options.dropsOldest
        desk = Desk(inner, learningOf(session: inner, options: options, publicKey: publicKey))
        self.publicKey = publicKey
    }

    private init(copied: SessionCore, publicKey: [UInt8]?) {
        inner = copied
        desk = Desk(copied, learningOf(session: copied, options: SessionOptions(), publicKey: publicKey))
        self.publicKey = publicKey
    }

    /// Learning from the answers of this session; off until it is switched on.
    public var learning: any Learning { desk.learning }

    /// That the file of its cache was refused, or that the session loaded last was saved with another adapter.
    public var notices: [Notice] { inner.notices }

    /// The system prompt; nil for none.
    public var system: String? { get async { await desk.ask { $0.text.system } } }

    /// Tokens that the target can read, the output included.
    public var contextSize: Int { inner.contextSize }

    /// Tokens of the conversation or text so far; 0 after ``undo()`` or ``load(from:)``, until the next answer. What is left of
    /// ``contextSize`` is the room of the next message and answer.
    public var contextUsed: Int { get async { await desk.ask { $0.contextUsed } } }

    /// Counts since the conversation began or was loaded.
    public var stats: Stats { inner.stats }

    /// Why the last generation ended; nil while it runs, and before the first.
    public var stopReason: StopReason? { desk.stopReason }

    /// The last generation as a whole; nil while it runs, and before the first.
    public var result: GenerationResult? {
        get async { await desk.ask { $0.answer.flatMap(GenerationResult.init) } }
    }

    /// Reads a stream of this session to its end.
    ///
    ///     let result = try await session.result(of: session.chat("How many legs do 3 cats have?"))
    ///
    /// - Parameter stream: from ``generate(_:_:grammar:)``, or another function of this session.
    /// - Returns: the whole output; what was written so far where the task was cancelled.
    /// - Throws: what the stream throws. `CancellationError`: the task was cancelled before the text began.
    public func result(of stream: AsyncThrowingStream<Piece, any Error>) async throws -> GenerationResult {
        let earlier = stopReason == nil ? nil : inner.answer  // one that had ended
        for try await _ in stream {}
        // In a task that was cancelled before, a stream ends without a text of its own.
        if Task.isCancelled && inner.answer === earlier { throw CancellationError() }
        guard let result = await result else { throw CancellationError() }
        return result
    }

    /// Writes a text after a prompt, and forgets the text before.
    ///
    /// - Parameters:
    ///   - prompt: a text.
    ///   - config: settings of the generation.
    ///   - grammar: what the text must be; nil for any text. The text is whole unless ``stopReason`` is
    ///     ``StopReason/cancelled`` or ``StopReason/stop``.
    /// - Returns: the text, piece after piece. It throws ``OmniDraftError/prompt(_:)``: the prompt is empty or too long;
    ///   ``OmniDraftError/grammar(_:)``: no text of the grammar fits the target's tokens or the number of tokens;
    ///   ``OmniDraftError/setting(_:)``: a setting outside its range; ``OmniDraftError/session(_:)``: another task is
    ///   using this session.
    public func generate(
        _ prompt: String, _ config: GenerationConfig = GenerationConfig(), grammar: Grammar? = nil
    ) -> AsyncThrowingStream<Piece, any Error> { stream { try $0.generate(prompt, config, grammar: grammar) } }

    /// Answers the next message of a conversation.
    ///
    /// - Parameters:
    ///   - message: of the user.
    ///   - config: settings of the answer.
    ///   - grammar: what the answer must be; nil for any text. One of tools lists them in the prompt, also for later
    ///     messages, and the result has the calls.
    /// - Returns: the answer, piece after piece; see ``generate(_:_:grammar:)`` for what it throws.
    public func chat(
        _ message: String, _ config: GenerationConfig = GenerationConfig(), grammar: Grammar? = nil
    ) -> AsyncThrowingStream<Piece, any Error> { stream { try $0.chat(message, config, grammar: grammar) } }

    /// Answers the results of the tools that the last answer called.
    ///
    /// - Parameters:
    ///   - results: one for each call, in the order of the calls.
    ///   - config: settings of the answer.
    ///   - grammar: as for a message; nil for an answer that is text.
    /// - Returns: the answer, piece after piece. It throws ``OmniDraftError/session(_:)`` where there are not as many
    ///   results as calls.
    public func toolResults(
        _ results: [String], _ config: GenerationConfig = GenerationConfig(), grammar: Grammar? = nil
    ) -> AsyncThrowingStream<Piece, any Error> { stream { try $0.toolResults(results, config, grammar: grammar) } }

    /// Answers the last message of a whole conversation, with or without a system prompt, which takes the place of the
    /// session's own. Answers that this session gave keep the ids that were generated.
    ///
    /// - Parameters:
    ///   - messages: a system prompt or none, then messages of user and assistant in turn; the last one is the user's.
    ///   - config: settings of the answer.
    ///   - grammar: what the answer must be; nil for any text.
    /// - Returns: the answer, piece after piece; see ``generate(_:_:grammar:)`` for what it throws.
    public func chat(
        _ messages: [ChatMessage], _ config: GenerationConfig = GenerationConfig(), grammar: Grammar? = nil
    ) -> AsyncThrowingStream<Piece, any Error> {
        stream { try $0.chat(readMessages(messages.map { ($0.role, $0.content) }), config, grammar: grammar) }
    }

    /// Answers the last message once more, in place of its answer. The random numbers are those of the config's seed,
    /// or of a new one.
    ///
    /// - Parameter config: settings of the answer.
    /// - Returns: the answer, piece after piece. It throws ``OmniDraftError/session(_:)`` where there is no message that
    ///   was answered.
    public func regenerate(
        _ config: GenerationConfig = GenerationConfig()
    ) -> AsyncThrowingStream<Piece, any Error> { stream { try $0.regenerate(config) } }

    /// Continues an answer that a file holds unfinished. The result begins with the earlier output, the pieces do not.
    ///
    /// - Returns: the rest, piece after piece. It throws ``OmniDraftError/session(_:)`` where there is no answer, or it
    ///   had ended.
    public func resume() -> AsyncThrowingStream<Piece, any Error> { stream { try $0.resume() } }

    /// Sets the system prompt; it applies to the next text.
    ///
    /// - Parameter text: the prompt; nil for none.
    /// - Throws: ``OmniDraftError/prompt(_:)``: the template has no place for one, or it is not a text.
    ///   ``OmniDraftError/session(_:)``: another task is using this session.
    public func setSystem(_ text: String?) async throws {
        try await desk.alone(between: true) { try $0.setSystem(text) }
    }

    /// Takes back the last message and all answers to it, also those to results.
    ///
    /// - Returns: the message.
    /// - Throws: ``OmniDraftError/session(_:)``: there is no message, or another task is using this session.
    @discardableResult
    public func undo() async throws -> String { try await desk.alone { try $0.undo() } }

    /// Ends the answer that is being written, within one run of a graph; its stream gives the last text and ends. The
    /// output so far stays. From any thread; it does not wait.
    public func cancel() { desk.cancel() }

    /// Writes this session to a file, also between two pieces. A kill at any moment leaves a whole file, the old or the
    /// new one.
    ///
    /// - Parameter url: the file.
    /// - Throws: ``OmniDraftError/sessionFile(_:)``: the place cannot be written, or holds a file that is not a session.
    ///   ``OmniDraftError/session(_:)``: another task is using this session.
    public func save(to url: URL) async throws {
        let path = try pathOf(url, "url")
        try await desk.alone(between: true) { try $0.save(path) }
    }

    /// Takes over a saved session of the same bundle.
    ///
    /// - Parameter url: the file.
    /// - Throws: ``OmniDraftError/sessionFile(_:)``: the file is refused; this session stays as it was.
    ///   ``OmniDraftError/session(_:)``: another task is using this session.
    public func load(from url: URL) async throws {
        let path = try pathOf(url, "url")
        try await desk.alone { try $0.load(path) }
    }

    /// Another session that goes on from here, also between two pieces: with the text, n-grams, adapters and settings of
    /// this one, and with buffers of its own. It records nothing and learns nothing, and the models read its text again. Its
    /// random numbers are the same, so both go on alike where the number of draft tokens is fixed.
    ///
    /// - Returns: the session.
    /// - Throws: ``OmniDraftError/session(_:)``: another task is using this session.
    public func copy() async throws -> TextSession {
        try await desk.alone(between: true) { [publicKey] in TextSession(copied: try $0.copy(), publicKey: publicKey) }
    }

    /// Forgets the conversation and its counts, not system prompt, tools and what was learned.
    ///
    /// - Throws: ``OmniDraftError/session(_:)``: another task is using this session.
    public func reset() async throws { try await desk.alone { try $0.reset() } }

    /// Writes the n-grams learned so far; a later session may begin with them.
    ///
    /// - Parameter url: the file.
    /// - Throws: ``OmniDraftError/cacheFile(_:)``: the file cannot be written, or another file than a cache of this pair
    ///   is there. ``OmniDraftError/session(_:)``: another task is using this session.
    public func saveCache(to url: URL) async throws {
        let path = try pathOf(url, "url")
        try await desk.alone(between: true) { _ = try $0.saveCache(path) }
    }

    /// Passes the thermal state on; no level changes the text. From any thread.
    ///
    /// - Parameter level: 0: nothing changes; 1: no learning; 2: also a pause of one pass's length between rounds; 3:
    ///   paused until the level falls.
    public func throttle(_ level: Int) { inner.models.throttle.level = level }

    /// Frees the drafter, between two rounds also of a running answer, which goes on without drafts. From any thread.
    public func dropDrafter() { inner.models.dropDrafter() }

    /// Loads the drafter again, for the next generation.
    ///
    /// - Throws: ``OmniDraftError/session(_:)``: the bundle was opened without the drafter.
    public func loadDrafter() async throws {
        let models = inner.models
        // Not on the session's queue: a text that is paused must not keep it waiting.
        try await Worker("drafter").run { try models.loadDrafter() }
    }

    private func stream(
        _ begin: @escaping @Sendable (SessionCore) throws -> Generation
    ) -> AsyncThrowingStream<Piece, any Error> {
        let reader = Reader(Writing(desk, begin))
        return AsyncThrowingStream { try await reader.next() }
    }
}
