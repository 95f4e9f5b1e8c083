// A session: one text or conversation on a loaded bundle, with the cache that learns from it.
//
// Threads: one generation at a time in a session; a second one at the same moment is refused. Different sessions may
// run in different threads at once, also on the same LoadedBundle. Generation.cancel may be called from any thread.

private let undoRemedy =
    "shorten the message, or make room: undo() takes the last one back, reset() begins a new conversation, "
    + "and with dropsOldest the oldest ones are left out"
private let leaveOutRemedy = "shorten the message, or leave out earlier ones"

/// What is to be answered: the turns of a conversation before the last, which has no answer, and its tools.
private struct Asked {
    let turns: [Turn]
    let last: Turn
    let system: String?
    let tools: String?
    var all: [Turn] { turns + [last] }
}

/// A conversation on a loaded bundle, with its KV buffers and n-gram cache; see ``SessionResources``.
final class SessionCore: SessionResources, @unchecked Sendable {
    /// Forgets the conversation and its counts, not system prompt, tools and what was learned.
    func reset() throws { try turn { text.forgetText() } }

    /// Starts a text and forgets the last one.
    ///
    /// - Parameters:
    ///   - config: settings of the generation.
    ///   - grammar: what the output must be; nil for any text.
    func generate(
        _ prompt: String, _ config: GenerationConfig = GenerationConfig(), raw: Bool = false, grammar: Grammar? = nil
    ) throws -> Generation {
        try turn(generates: true) {
            try config.check()
            return try begin(encode(checkedText(prompt), raw: raw), config, grammar)
        }
    }

    /// The same after target ids.
    func generate(ids: [Int32], _ config: GenerationConfig = GenerationConfig()) throws -> Generation {
        try turn(generates: true) {
            try config.check()
            return try begin(ids, config, nil)
        }
    }

    /// Answers the next message of a conversation; the target reads only what is new in it.
    func chat(
        _ message: String, _ config: GenerationConfig = GenerationConfig(), grammar: Grammar? = nil
    ) throws -> Generation {
        try turn(generates: true) {
            try config.check()
            return try answer(next: Turn(message: checkedText(message)), config, grammar)
        }
    }

    /// Answers the results of the tools that the last answer called, one for each call, in the order of the calls.
    func toolResults(
        _ results: [String], _ config: GenerationConfig = GenerationConfig(), grammar: Grammar? = nil
    ) throws -> Generation {
        try turn(generates: true) {
            try config.check()
            let calls = text.asked == nil ? 0 : answer?.calls.count ?? 0
            if calls == 0 || calls != results.count {
                throw sessionError(
                    "there are \(results.count) results of \(calls) calls",
                    "give one result for each call of the last answer")
            }
            for result in results { try checkSize(result, "the result") }
            return try answer(next: Turn(message: "", results: results), config, grammar)
        }
    }

    /// The same with the whole conversation, with or without a system prompt, which takes the place of the session's
    /// own. Answers that the session itself gave keep the ids that were generated.
    func chat(
        _ messages: MessageList, _ config: GenerationConfig = GenerationConfig(), grammar: Grammar? = nil
    ) throws -> Generation {
        try turn(generates: true) {
            try config.check()
            let turns = listedTurns(loaded, messages: messages, known: finishedTurns())
            let asked = Asked(
                turns: turns, last: Turn(message: messages.message), system: messages.system,
                tools: try tools(of: grammar))
            return try answer(asked, config, leaveOutRemedy, grammar: grammar)
        }
    }

    /// Answers the last message once more, in place of its answer, in the same grammar.
    ///
    /// The random numbers are those of the config's seed, or of a new one: another seed, another sample. Greedy text is
    /// the same again.
    func regenerate(_ config: GenerationConfig = GenerationConfig()) throws -> Generation {
        try turn(generates: true) {
            try config.check()
            var turns = finishedTurns()
            guard let last = turns.popLast() else {
                throw sessionError("there is no answer to generate again", "begin with a message")
            }
            let again = Turn(message: last.message, results: last.results)
            let grammar = text.asked == nil ? nil : text.wanted
            let asked = Asked(turns: turns, last: again, system: text.system, tools: text.tools)
            return try answer(asked, config, grammar: grammar)
        }
    }

    /// Takes back the last message and all answers to it, those to results of tools too; what was learned stays.
    ///
    /// The KV buffers keep the text until the next message, which rewinds them to what both texts share.
    ///
    /// - Returns: the message.
    func undo() throws -> String {
        try turn {
            var turns = finishedTurns()
            while turns.last?.results.isEmpty == false { turns.removeLast() }
            guard let last = turns.popLast() else {
                throw sessionError("there is no message to take back", "begin with one")
            }
            text.turns = turns
            text.asked = nil
            text.begin(nil)
            return last.message
        }
    }

    /// Continues the generation that a session was saved in.
    ///
    /// Its text and ids begin with the earlier output; the statistics count from here.
    ///
    /// - Throws: ``OmniDraftError/session(_:)``: there is none, or it had ended.
    func resume() throws -> Generation {
        try turn(generates: true) {
            guard let before = answer, before.stopReason == nil else {
                throw sessionError("there is no unfinished generation to resume", "start one")
            }
            if before.hasGrammar { throw sessionError("an output in a grammar is not resumed", "start it again") }
            let emitted = EarlierOutput(tokenIds: before.tokenIds, logprobs: before.logprobs)
            let generation = try generateFromState(
                models, text: text, config: before.config, prompt: before.prompt, context: text.decoder.context,
                emitted: emitted, recording: recording())
            text.begin(generation)
            return generation
        }
    }

    /// Writes this session to a file, also between the pieces of a generation (spec/09-session.md).
    ///
    /// A kill at any moment leaves a whole file, the old or the new one.
    func save(_ path: String) throws {
        try turn {
            let (saved, cache) = try capture(models, text)
            try writeSession(path, saved, cache)
        }
    }

    /// Takes over a saved session of the same bundle. The models read its text again.
    ///
    /// What follows has the distribution that it would have had; at temperature 0 in float32 it is the same text.
    ///
    /// - Throws: ``OmniDraftError/sessionFile(_:)``: the file is refused; this session stays as it was.
    func load(_ path: String) throws {
        try turn {
            let (saved, cache) = try readSession(path)
            let (restored, notice) = try restore(models: models, text: text, path: path, saved: saved, cache: cache)
            text = restored
            notices = notices.filter { $0.kind != .otherAdapter } + [notice].compactMap { $0 }
        }
    }

    /// Another session that goes on from here, also between the pieces of a generation. It has the text, n-grams, adapters
    /// and settings of this one, and contexts of its own, so its models read the text again. It records nothing.
    func copy() throws -> SessionCore {
        let ((saved, cache), wanted) = try turn { try (capture(models, text), text.wanted) }
        let other = try SessionCore(loaded)
        other.dropsOldest = dropsOldest
        for (role, adapter) in models.adapters { try other.useAdapter(adapter, role) }
        other.text = try restore(
            models: other.models, text: other.text, path: "the session", saved: saved, cache: cache
        ).text
        other.text.wanted = wanted
        return other
    }

    private func begin(_ ids: [Int32], _ config: GenerationConfig, _ grammar: Grammar?) throws -> Generation {
        let generation = try generateFromPrompt(
            models, text: text, ids: ids, config: config, recording: recording(), grammar: grammar)
        text.turns = []
        text.asked = nil
        return generation
    }

    private func answer(next: Turn, _ config: GenerationConfig, _ grammar: Grammar?) throws -> Generation {
        let asked = Asked(
            turns: finishedTurns(), last: next, system: text.system, tools: try tools(of: grammar) ?? text.tools)
        return try answer(asked, config, grammar: grammar)
    }

    /// Begins the answer to a message; nothing changes where it is refused.
    private func answer(
        _ asked: Asked, _ config: GenerationConfig,
        _ tooLong: String = undoRemedy, grammar: Grammar? = nil
    ) throws -> Generation {
        let tools = try toolText(asked)
        func ids(_ kept: [Turn]) throws -> [Int32] {
            try conversationIds(
                targetTokenizer, template: template, turns: kept, asked: asked.last, system: asked.system, tools: tools)
        }
        let dropped = dropsOldest ? try turnsToDrop(asked, config) { try ids($0).count } : 0
        let kept = Array(asked.turns.dropFirst(dropped))
        let remedy = kept.isEmpty ? tooLongRemedy : tooLong
        let generation = try generateFromPrompt(
            models, text: text, ids: ids(kept), config: config, recording: recording(), tooLong: remedy,
            grammar: grammar)
        generation.droppedTurns = dropped
        text.turns = kept
        text.asked = asked.last
        text.system = asked.system
        text.tools = asked.tools
        text.wanted = grammar
        return generation
    }

    private func turnsToDrop(
        _ asked: Asked, _ config: GenerationConfig, size: ([Turn]) throws -> Int
    ) rethrows -> Int {
        if try size(asked.turns) + config.maxNewTokens <= contextSize { return 0 }
        // Results stay with the calls that they belong to.
        let starts = asked.all.indices.filter { asked.all[$0].results.isEmpty }
        let sizes = try starts.map { try size(Array(asked.turns.dropFirst($0))) }
        return starts[firstKept(sizes, limit: contextSize, new: config.maxNewTokens)]
    }

    /// How a conversation lists its tools and has their results; nil where it has neither.
    private func toolText(_ asked: Asked) throws -> ToolText? {
        if asked.tools == nil && asked.all.allSatisfy({ $0.results.isEmpty }) { return nil }
        let outputText = loaded.outputText
        return ToolText(
            form: try toolForm(), listing: asked.tools ?? "", begin: bundle.prompt.begin,
            textOf: { outputText.text($0) })
    }

    private func toolForm() throws -> ToolForm {
        if let form = bundle.prompt.toolForm { return form }
        throw promptError(
            "this model has no chat template that tools could be listed in",
            "use another model, or describe the call in the message and give a grammar")
    }

    /// The tools that a grammar lists; nil for another one.
    private func tools(of grammar: Grammar?) throws -> String? {
        guard let grammar, !grammar.tools.isEmpty else { return nil }
        if try toolForm().calls.fits(grammar) { return grammar.tools }
        let message = "the grammar calls tools in another form than this bundle"
        throw grammarError("calls", message, "compile it for this bundle")
    }

    /// All turns so far, with the last answer as far as it went.
    private func finishedTurns() -> [Turn] {
        guard let asked = text.asked, let answer else { return text.turns }
        return text.turns + [Turn(message: asked.message, answer: answerIds(loaded, answer), results: asked.results)]
    }
}
