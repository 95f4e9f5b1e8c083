// Sessions between memory and disk: gather a session's state, check a file against a bundle, restore it.

/// The version of this library, which files that it writes carry.
let libraryVersion = "0.1.0"
private let remedy = "begin a new session, or give the file that was saved"

/// Writes a session file; a kill at any moment leaves a whole file, the old or the new one.
func writeSession(_ path: String, _ saved: SavedSession, _ cache: [UInt8]) throws {
    do {
        let place = try placeOf(path)
        if try !mayReplace(place) {
            let message = "\(path) is not a session file, so it is not replaced"
            throw sessionFileError("unwritable", message, "choose another name")
        }
        try writeAtomically(place, encodeSession(saved, cache))
    } catch let error as FileError {
        let message = "the session cannot be saved as \(path) (\(error.message))"
        throw sessionFileError("unwritable", message, "choose another place")
    }
}

/// Whether nothing is there, or an empty file, or a session file, also a damaged one.
private func mayReplace(_ place: String) throws -> Bool {
    if !exists(place) { return true }
    let head = try OpenFile(place).read(sessionMagic.count)
    return head.isEmpty || head == sessionMagic
}

/// The saved session and the bytes of the cache in a session file.
///
/// - Throws: ``OmniDraftError/sessionFile(_:)``: it cannot be read, or is refused.
func readSession(_ path: String) throws -> (saved: SavedSession, cache: [UInt8]) {
    let data = try onFileError(of: try readFile(path, most: maxSessionBytes)) {
        sessionFileError("unreadable", "\(path) cannot be read (\($0))", remedy)
    }
    return try refusing(path) { try decodeSession(data) }
}

/// Names the file in a refusal of its content.
private func refusing<T>(_ path: String, _ work: () throws -> T) throws -> T {
    do {
        return try work()
    } catch OmniDraftError.sessionFile(let refusal) {
        throw sessionFileError(refusal.fault, "\(path) is refused: \(refusal.message)", remedy)
    } catch let error as ValueError {
        throw sessionFileError("state", "\(path) is refused: \(error.message)", remedy)
    }
}

/// What sessions of a bundle belong to.
func identityOf(_ bundle: ModelBundle, _ adapters: [Role: String] = [:]) -> Identity {
    let read = bundle.files.members.filter { bundle.target.reads($0.name) || bundle.drafter.reads($0.name) }
    return Identity(
        draftFingerprint: bundle.drafter.tokenizerFingerprint,
        targetFingerprint: bundle.target.tokenizerFingerprint,
        graphs: ByName(read.map { ($0.name, $0.value.sha256) }), adapters: adapters)
}

func capture(_ models: SessionModels, _ text: TextState) throws -> (saved: SavedSession, cache: [UInt8]) {
    let loaded = models.loaded
    let answer = text.answer.map { answer in
        SavedAnswer(
            config: answer.config, prompt: answer.prompt, output: answer.tokenIds,
            context: loaded.drafter == nil ? nil : text.decoder.context, random: text.random.state,
            stopReason: savedReason(answer), logprobs: answer.logprobs)
    }
    let saved = SavedSession(
        omnidraft: libraryVersion, identity: identityOf(loaded.bundle, models.adapters.mapValues(\.digest)),
        costs: text.costs, lengths: text.lengths.state, turns: text.turns, asked: text.asked, answer: answer,
        system: text.system, tools: text.tools)
    return (saved, try encodeCache(text.cache.table()))
}

/// Why an answer ended, for a file: it has no grammar, so nobody can go on with an answer that has one.
private func savedReason(_ answer: Generation) -> StopReason? {
    let reason = answer.stopReason
    if !answer.hasGrammar || (reason != nil && reason != .complete) { return reason }
    return answer.limit() ?? .cancelled
}

/// The state of a text that a file holds, and a notice where the session was saved with another adapter of the drafter;
/// everything is checked before it is returned.
///
/// The models read the text again: the KV buffers are not part of the file.
func restore(
    models: SessionModels, text: TextState, path: String, saved: SavedSession, cache: [UInt8]
) throws -> (text: TextState, notice: Notice?) {
    let notice = try checkIdentity(models, path, saved.identity)
    return try refusing(path) {
        try check(saved, models.loaded.bundle)
        let restored = TextState(try cacheOf(cache, text.cache), saved.costs)
        restored.lengths = Lengths(saved.lengths)
        restored.turns = saved.turns
        restored.asked = saved.asked
        restored.system = saved.system
        restored.tools = saved.tools
        restored.drops = models.drops
        if let answer = saved.answer { restored.answer = try replay(models, restored, answer) }
        return (restored, notice)
    }
}

/// The last generation of the file, which `resume` continues.
private func replay(_ models: SessionModels, _ text: TextState, _ saved: SavedAnswer) throws -> Generation {
    text.random = SplitMix64(saved.random)
    let emitted = EarlierOutput(tokenIds: saved.output, logprobs: saved.logprobs, stopReason: saved.stopReason)
    let context = contextOf(models, saved)
    let generation = try generateFromState(
        models, text: text, config: saved.config, prompt: saved.prompt, context: context, emitted: emitted)
    let due = saved.stopReason == .cancelled ? nil : saved.stopReason
    if generation.end() != due { throw ValueError("its output ended in another way than it says") }
    if text.tools != nil, saved.stopReason != nil, let form = models.loaded.bundle.prompt.toolForm {
        generation.readCalls(form.calls)
    }
    return generation
}

/// The text in draft ids; it is made where a session without a drafter saved the file.
func contextOf(_ models: SessionModels, _ saved: SavedAnswer) -> [Int32] {
    if let context = saved.context { return context }
    if !saved.config.asksDrafter || !models.hasDrafter { return [] }
    return models.loaded.draftPrompt(saved.prompt + saved.output)
}

/// Refuses a state of other weights; a notice where only the drafter's adapter differs.
///
/// With another adapter of the target the text would continue with another distribution. Another adapter of the drafter
/// changes the drafts, and so which text a seed gives above temperature 0, but no distribution: this is not a reason to
/// lose a conversation.
private func checkIdentity(_ models: SessionModels, _ path: String, _ saved: Identity) throws -> Notice? {
    let bundle = models.loaded.bundle
    var own = identityOf(bundle)
    own.adapters = saved.adapters
    if saved != own {
        let name = split(bundle.path).name
        let message = "\(path) was saved with another bundle, or other graphs of it, than \(name)"
        throw sessionFileError("foreign_bundle", message, remedy)
    }
    var notice: Notice?
    for role in Role.allCases {
        let (before, now) = (saved.adapters[role], models.adapters[role]?.digest)
        if before == now { continue }
        let message =
            "\(path) was saved with \(adapterName(before)) of the \(role.rawValue) "
            + "and this session uses \(adapterName(now))"
        let remedy = "use the adapter that it was saved with"
        if role == .target { throw sessionFileError("foreign_adapter", message, remedy) }
        let effect = "sampled text may differ from what it would have been, its distribution does not"
        notice = Notice(kind: .otherAdapter, message: "\(message): \(effect); for the same text \(remedy)")
    }
    return notice
}

private func adapterName(_ digest: String?) -> String { digest.map { "adapter \($0.prefix(12))" } ?? "no adapter" }

/// The cache in some bytes, with the capacity of the cache that it replaces, and room for all entries.
private func cacheOf(_ data: [UInt8], _ old: NgramCache) throws -> NgramCache {
    let table: CacheTable
    do {
        table = try decodeCache(Bytes(data))
        try checkAgainst(table, old.map)
    } catch OmniDraftError.cacheFile(let refusal) {
        throw sessionFileError("cache", "its n-gram cache is refused: \(refusal.message)")
    }
    // Nothing is evicted that the saved session had.
    return try NgramCache(table, old.map, capacity: max(old.capacity, table.count))
}

/// Refuses ids outside the vocabularies and a text that no context of this bundle holds.
private func check(_ saved: SavedSession, _ bundle: ModelBundle) throws {
    let answer = saved.answer
    let ofTarget = saved.turns.map(\.answer) + (answer.map { [$0.prompt, $0.output] } ?? [])
    try checkIds("target", ofTarget, bundle.target.vocabSize)
    try checkIds("draft", answer?.context.map { [$0] } ?? [], bundle.drafter.vocabSize)
    guard let answer else { return }
    let scored = max(0, answer.output.count - (answer.stopReason == nil ? 0 : 1))
    let limit = bundle.target.kv.maxLength
    if answer.prompt.count + scored > limit {
        let message = "its text has \(answer.prompt.count + scored) tokens and the context holds \(limit)"
        throw sessionFileError("context", message)
    }
}

private func checkIds(_ name: String, _ lists: [[Int32]], _ size: Int) throws {
    let largest = lists.map { $0.max() ?? 0 }.max() ?? 0
    if Int(largest) >= size {
        throw sessionFileError("id_range", "it holds \(name) id \(largest), outside 0..\(size - 1)")
    }
}
