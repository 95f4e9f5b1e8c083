// The drafter: a small model that guesses, in its own vocabulary (spec/04-speculation.md, section 3). What it has read
// changes speed, never the output.

let readChunk = 64  // tokens of a pass that reads a text; a cancellation waits for one pass

/// The draft ids that may follow some drafted ones, as in a grammar; nil where none may.
typealias Allowed = ([Int32]) -> Mask?

/// Draft tokens and the distributions that they were drawn from; or tokens copied from the context.
struct Draft {
    /// Draft ids; none where the context was copied from.
    var tokens: [Int32] = []
    /// One for each draft token, over the draft vocabulary. They live until the next draft: it borrows the same memory.
    var distributions: [any Distribution] = []
    /// Of each draft token's confidence, and of one that was not worth proposing; none where the plan asks for none.
    var classes: [Int] = []
    /// Target ids from the context.
    var copied: [Int32] = []
    /// Whether the draft ended because the drafter gave logits of which nothing can be drawn: NaN or infinity. A damaged
    /// adapter or graph does.
    var unsound = false
}

/// Keeps a model's KV cache in step with a context that is partly guessed and partly corrected.
class Drafter {
    /// The small model; nil in sessions in which no round drafts.
    var model: (any CausalModel)?
    /// Ids that every context begins with (bos).
    let start: [Int32]
    private let workspace = Workspace()
    private var cached: [Int32] = []  // ids in the model's KV cache

    init(_ model: (any CausalModel)?, start: [Int32] = []) {
        self.model = model
        self.start = start
    }

    /// Draw tokens that may follow a context of draft ids.
    ///
    /// - Parameters:
    ///   - context: all draft ids so far, without the start.
    ///   - plan: how many tokens at most, and where a draft ends that is unlikely to be accepted.
    ///   - temperature: of the drafter's distribution; 0 takes the argmax.
    ///   - banned: draft ids that may not be drawn.
    ///   - allowed: of the drafted ids so far, which may follow them; nil ends the draft.
    func propose(
        _ context: [Int32], plan: Plan, temperature: Double, banned: [Int32], random: any RandomSource,
        allowed: Allowed? = nil
    ) throws -> Draft {
        guard let model, !(start.isEmpty && context.isEmpty) else { return Draft() }  // nothing to continue
        workspace.reset()
        let most = min(plan.count, model.maxLength / 2)
        let isConfident = !plan.chances.isEmpty
        var reach = 1.0  // the probability that all tokens of the draft are accepted
        var pending = most > 0 ? try read(start + context[window(context.count, model)...], model) : []
        var draft = Draft()
        while draft.tokens.count < most {
            let mask = allowed?(draft.tokens)
            if allowed != nil && mask == nil { break }
            let row = try model.score(pending, numLogits: 1)
            cached += pending
            let distribution: any Distribution
            do {
                distribution = try draftDistribution(
                    row, row: row.rows - 1, temperature: temperature, banned: banned, workspace: workspace,
                    allowed: mask, isConfident: isConfident)
            } catch OmniDraftError.bundle {
                // What was drawn before is right, and the round goes on with it.
                draft.unsound = true
                break
            }
            if isConfident {  // it is the distribution that decides, not the token that is drawn from it
                let each = confidenceClass(distribution.confidence)
                draft.classes.append(each)
                reach *= plan.chances[each]
                if !plan.worth.isEmpty && reach < plan.worth[draft.tokens.count] { break }
            }
            let token = random.sample(distribution)
            draft.tokens.append(token)
            draft.distributions.append(distribution)
            pending = [token]
            if isConfident && draft.tokens.count < most && reach < plan.least[draft.tokens.count - 1] { break }
        }
        return draft
    }

    /// Read the whole context again before the next draft: the KV cache is not of this context.
    func forget() { cached = [] }

    /// Make the KV cache hold the beginning of some ids; return the rest, which one pass can read.
    private func read(_ expected: [Int32], _ model: any CausalModel) throws -> [Int32] {
        let shared = min(commonLength(cached, expected), expected.count - 1)
        model.rewind(shared)
        cached.removeSubrange(shared...)
        while expected.count - cached.count > readChunk {
            let chunk = Array(expected[cached.count..<cached.count + readChunk])
            _ = try model.score(chunk, numLogits: 1)
            cached += chunk
        }
        return Array(expected[cached.count...])
    }

    /// Where the part of a context begins that the model reads: 0 while all of it fits.
    ///
    /// The window moves by half its size at once, because every move costs a prefill. It depends on the length alone, so a
    /// restored context is read as it was.
    private func window(_ length: Int, _ model: any CausalModel) -> Int {
        let longest = min(Defaults.maxDraftTokens, model.maxLength / 2)
        let room = model.maxLength - start.count - longest
        let half = max(1, room / 2)
        let missing = length - room
        return missing <= 0 ? 0 : (missing + half - 1) / half * half
    }
}

func commonLength(_ a: [Int32], _ b: [Int32]) -> Int {
    let most = min(a.count, b.count)
    var length = 0
    while length < most && a[length] == b[length] { length += 1 }
    return length
}
