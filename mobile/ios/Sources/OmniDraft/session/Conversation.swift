// A conversation as target ids: messages inside a template, answers as the ids that were generated. An answer is never encoded
// again: other ids would change what the target is conditioned on.

struct ToolText {
    let form: ToolForm
    /// Empty without tools.
    let listing: String
    /// Of the template, before an answer that is to be written.
    let begin: String
    /// The text of an answer, with the tags around calls.
    let textOf: ([Int32]) -> [UInt8]
}

/// The target ids of a conversation, up to the position at which an answer begins.
///
/// - Parameters:
///   - asked: what is to be answered.
///   - system: the system prompt; nil without one.
///   - tools: that are listed before the first message or the last; needed where turns have results.
/// - Throws: ``OmniDraftError/prompt(_:)``: see ``Template/parts(turns:system:)``.
func conversationIds(
    _ tokenizer: Tokenizer, template: PromptTemplate, turns: [Turn], asked: Turn, system: String? = nil,
    tools: ToolText? = nil
) throws -> [Int32] {
    var parts = try template.parts(turns: turns.count + 1, system: system != nil)
    var ends = template.trimmed(turns: turns.count + 1, system: system != nil)
    var begun = [parts.removeFirst()]
    let prompt = system.map { trimmed($0, ends.removeFirst()) }
    if let prompt { begun += [prompt, parts.removeFirst()] }
    let all = turns + [asked]
    let told = tools.flatMap { $0.listing.isEmpty ? nil : $0 }
    let listed = told?.form.later == nil ? 0 : all.lastIndex { $0.results.isEmpty } ?? 0
    if let told, listed == 0 { begun = told.form.opening(told.listing, system: prompt) }
    var ids: [Int32] = []
    for (number, turn) in all.enumerated() {
        if turn.results.isEmpty {
            var before = number == 0 ? begun : [parts[2 * number - 1]]
            if let told, number > 0, number == listed { before = told.form.moved(told.listing) }
            let around = before + [trimmed(turn.message, ends[number]), parts[2 * number]]
            ids += tokenizer.encodePrompt(around, goesOn: number > 0)
        } else {
            guard let tools else { preconditionFailure("a session knows the form of results") }
            let begin = number == turns.count ? tools.begin : ""
            let called = tools.textOf(all[number - 1].answer)
            ids += tokenizer.encodePrompt(tools.form.answered(turn.results, begin: begin, called: called), goesOn: true)
        }
        ids += turn.answer
    }
    return ids
}

/// How many of the oldest turns are left out of a conversation so that an answer has room (spec/09-session.md).
///
/// - Parameters:
///   - sizes: tokens of the conversation up to the answer, without its first 0, 1, ... turns.
///   - new: tokens of the answer, at most.
func firstKept(_ sizes: [Int], limit: Int, new: Int) -> Int {
    let room = min(new, limit / 4)
    if sizes[0] + room <= limit { return 0 }
    return sizes.firstIndex { $0 + room <= limit / 2 } ?? sizes.count - 1
}

/// A turn whose answer a program gives as text.
///
/// The answer is encoded after the white space that the model would have begun it with. Its thought is left out, and the
/// white space at those of its ends where the template leaves it out.
func givenTurn(_ tokenizer: Tokenizer, prompt: PromptTemplate, message: String, answer text: String) -> Turn {
    let answer = prompt.lead + givenAnswer(text, prompt.think, prompt.trimmedAnswer)
    return Turn(message: message, answer: tokenizer.encodePrompt(["", answer, ""], goesOn: true))
}

/// The earlier turns of a list of messages; an answer that this session generated keeps its ids.
func listedTurns(_ loaded: LoadedBundle, messages: MessageList, known: [Turn]) -> [Turn] {
    let prompt = loaded.bundle.prompt
    var isOwn = true
    return messages.turns.enumerated().map { number, given in
        isOwn =
            isOwn && number < known.count && isSame(known[number].message, given.message)
            && known[number].results.isEmpty
        if isOwn {
            let written = utf8Text(loaded.outputText.text(known[number].answer))
            isOwn = isSame(givenAnswer(written, prompt.think), givenAnswer(given.answer, prompt.think))
        }
        return isOwn
            ? known[number]
            : givenTurn(loaded.targetTokenizer, prompt: prompt, message: given.message, answer: given.answer)
    }
}

/// The ids of an answer as a conversation keeps them: they spell the answer's text, or the end of it.
///
/// The end token is left out, because the template has its own. A thought is left out where the template leaves it out.
/// Where a stop string begins inside a token, the bytes of that token before it are spelled again; all other ids stay
/// as they were generated.
///
/// - Parameter answer: the generation.
func answerIds(_ loaded: LoadedBundle, _ answer: Generation) -> [Int32] {
    var ids = answer.tokenIds
    if let start = answer.stopStart {
        let data = ids.map(loaded.outputText.bytesOf)
        let (whole, head) = wholeTokens(data.map(\.count), start)
        let rest = head > 0 ? loaded.targetTokenizer.spell(Array(data[whole][..<head])) : nil
        ids = ids[..<whole] + (rest ?? [])
    } else if let last = ids.last, loaded.bundle.target.eosIds.contains(last) {
        ids.removeLast()
    }
    return loaded.outputText.kept(ids, inside: answer.beginsInside)
}

/// The text of the generation before, in both vocabularies.
struct EarlierText {
    let mode: GenerationConfig.Mode
    /// Target ids of its prompt and output.
    let tokens: [Int32]
    /// The same text in draft ids.
    let context: [Int32]
}

/// Bytes as text; each invalid part becomes U+FFFD, as in the output.
func utf8Text(_ data: [UInt8]) -> String {
    var stream = Utf8Stream()
    let text = stream.push(data)
    return text + stream.flush()
}

/// The visible text of target ids, encoded by the drafter's tokenizer; control tokens have no text.
func draftText(_ target: Tokenizer, drafter: Tokenizer, ids: [Int32]) -> [Int32] {
    drafter.encode(utf8Text(target.textOf(ids)))
}

/// A prompt in draft ids; where it continues the text before, only the new part is encoded.
///
/// - Parameters:
///   - ids: target ids of the whole prompt.
///   - before: the text before; nil where there is none.
func draftContext(
    _ target: Tokenizer, drafter: Tokenizer, ids: [Int32], before: EarlierText?
) -> [Int32] {
    // After an answer without the drafter the context is empty, or lacks the prompt.
    guard let before, before.mode == .trie, !before.context.isEmpty, ids.starts(with: before.tokens) else {
        return draftText(target, drafter: drafter, ids: ids)
    }
    let added = Array(ids[before.tokens.count...])
    return before.context + (drafter.spell(target.textOf(added)) ?? draftText(target, drafter: drafter, ids: added))
}
