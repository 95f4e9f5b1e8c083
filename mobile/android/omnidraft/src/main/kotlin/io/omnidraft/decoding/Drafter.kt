package io.omnidraft.decoding

import io.omnidraft.Defaults
import io.omnidraft.vocab.IntList

/* The drafter: a small model that guesses, in its own vocabulary (spec/04-speculation.md, section 3). */

/** The draft ids that may follow drafted ones; null ends the draft. */
internal typealias Allowed = (IntList) -> IdSet?

internal const val READ_CHUNK: Int = 64 // tokens of a pass that reads a text; a cancellation waits for one pass

/**
 * Draft tokens and the distributions that they were drawn from; or tokens copied from the context.
 *
 * @property distributions one for each draft token, over the draft vocabulary. They live until the next draft: it
 *   borrows the same memory.
 */
internal class Draft(
    val tokens: IntList = IntList(), // draft ids; none where the context was copied from
    val distributions: MutableList<Distribution> = ArrayList(),
    val classes: IntList = IntList(), // of each draft token's confidence, and of one not worth proposing; see Plan
    val copied: IntArray = NO_IDS, // target ids from the context
) {
    /**
     * Whether the draft ended because the drafter gave logits of which nothing can be drawn: NaN or infinity. A
     * damaged adapter or graph does.
     */
    var unsound: Boolean = false
}

/** Keeps a model's KV cache in step with a context that is partly guessed and partly corrected. */
internal open class Drafter(var model: Model, val start: IntArray = NO_IDS) {
    private val workspace = Workspace()
    private val cached = IntList() // ids in the model's KV cache

    /** Draw tokens that may follow a context of draft ids. */
    open fun propose(
        context: IntList, // all draft ids so far, without the start
        plan: Plan, // how many tokens at most, and where a draft ends that is unlikely to be accepted
        temperature: Double, // of the drafter's distribution; 0 takes the argmax
        banned: IntArray, // draft ids that may not be drawn
        random: RandomSource,
        allowed: Allowed? = null, // null: all ids that are not banned
    ): Draft {
        if (start.isEmpty() && context.size == 0) return Draft() // nothing to continue
        workspace.reset()
        val draft = Draft()
        val most = minOf(plan.count, model.maxLength / 2)
        val isConfident = plan.chances.isNotEmpty()
        var reach = 1.0
        var pending = if (most > 0) read(start + context.toArray(window(context.size))) else NO_IDS
        while (draft.tokens.size < most) {
            val mayFollow = if (allowed == null) null else allowed(draft.tokens) ?: break
            val row = model.score(pending, 1)
            cached.addAll(pending)
            if (temperature == 0.0) workspace.reset() // certain distributions borrow no memory
            val distribution = try {
                draftDistribution(row, row.rows - 1, temperature, banned, workspace, mayFollow, isConfident)
            } catch (error: LogitsError) {
                draft.unsound = true // what was drawn before is right, and the round goes on with it
                break
            }
            if (isConfident) { // it is the distribution that decides, not the token that is drawn from it
                val found = confidenceClass(distribution.confidence)
                draft.classes.add(found)
                reach *= plan.chances[found]
                if (plan.worth.isNotEmpty() && reach < plan.worth[draft.tokens.size]) break
            }
            val token = random.sample(distribution)
            draft.tokens.add(token)
            draft.distributions.add(distribution)
            pending = intArrayOf(token)
            if (isConfident && (draft.tokens.size == most || reach < plan.least[draft.tokens.size - 1])) break
        }
        return draft
    }

    /** Read the whole context again before the next draft: the KV cache is not of this context. */
    fun forget() {
        cached.clear()
    }

    /** Make the KV cache hold the beginning of some ids; return the rest, which one pass can read. */
    private fun read(expected: IntArray): IntArray {
        var read = minOf(commonLength(cached, expected), expected.size - 1)
        model.rewind(read)
        cached.truncate(read)
        while (expected.size - read > READ_CHUNK) {
            val chunk = expected.copyOfRange(read, read + READ_CHUNK)
            model.score(chunk, 1)
            cached.addAll(chunk)
            read += READ_CHUNK
        }
        return expected.copyOfRange(read, expected.size)
    }

    /**
     * Where the part of a context begins that the model reads: 0 while all of it fits.
     *
     * The window moves by half its size at once, because every move costs a prefill. It depends on the length alone,
     * so a restored context is read as it was.
     */
    private fun window(length: Int): Int {
        val longest = minOf(Defaults.MAX_DRAFT_TOKENS, model.maxLength / 2)
        val room = model.maxLength - start.size - longest
        val half = maxOf(1, room / 2)
        return maxOf(0, ceilDiv(length - room, half) * half)
    }
}

/** Replaces a drafter that was not loaded; a generation that asks it for a draft has a bug. */
private class NoModel(override val vocabSize: Int) : Model {
    override val maxLength: Int get() = 0
    override val length: Int get() = 0

    override fun score(tokens: IntArray, numLogits: Int?): Logits = error("a plain generation asked for a draft")

    override fun rewind(length: Int) = check(length == 0) { "there is nothing to rewind" }
}

/** A drafter without a model, for sessions in which no round drafts. */
internal fun noDrafter(vocabSize: Int): Drafter = Drafter(NoModel(vocabSize))

internal fun commonLength(a: IntList, b: IntArray): Int {
    val most = minOf(a.size, b.size)
    var length = 0
    while (length < most && a[length] == b[length]) length++
    return length
}

/** The quotient, rounded up; [divisor] is above 0. */
private fun ceilDiv(number: Int, divisor: Int): Int = -(-number).floorDiv(divisor)
