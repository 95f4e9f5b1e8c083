package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.StopReason
import io.omnidraft.decoding.Costs
import io.omnidraft.decoding.DecoderState
import io.omnidraft.decoding.LengthState
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.models.Role
import io.omnidraft.vocab.NgramCache

/* The state of a session's text, in memory and as the values that a session file holds. */

/**
 * The state of a session's text.
 *
 * @property cache n-grams learned so far.
 * @property costs seconds on this device, which the draft length "auto" uses.
 * @property decoder the text in both vocabularies.
 * @property random the source of randomness of the last generation.
 * @property lengths what the draft length "auto" learned of the texts so far.
 * @property turns earlier turns of a conversation.
 * @property message the message that is being answered; null where every message has its turn.
 * @property answer the last generation; null where it was taken back.
 * @property system the system prompt of texts that begin in the template; null for none.
 * @property totals counts of the generations before [answer], since the conversation began.
 * @property answers number of generations since then.
 */
internal class TextState(
    @Volatile var cache: NgramCache,
    @Volatile var costs: Costs,
    @Volatile var decoder: DecoderState = DecoderState(),
    var random: SplitMix64 = SplitMix64(0),
    @Volatile var lengths: LengthState = LengthState(),
    @Volatile var turns: List<Turn> = emptyList(),
    @Volatile var message: String? = null,
    @Volatile var system: String? = null,
) {
    /** How often the drafter had been dropped when the last text began; see [SessionModels.drops]. */
    var drops: Int = 0

    /** What statistics are made of, replaced as a whole: any thread may read it. */
    private class Counted(val totals: Statistics, val answers: Int, val answer: Generation?)

    @Volatile private var counted = Counted(Statistics(), 0, null)

    var answer: Generation?
        get() = counted.answer
        set(value) {
            counted = Counted(counted.totals, counted.answers, value)
        }
    val totals: Statistics get() = counted.totals
    val answers: Int get() = counted.answers

    /** Counts of all generations, the last one with it, and their number. */
    fun statistics(): Pair<Int, Statistics> {
        val now = counted
        return now.answers to (now.answer?.let { now.totals.with(it.statistics) } ?: now.totals)
    }

    /** Puts a generation, or none, in the place of the last one, whose counts stay. */
    fun begin(answer: Generation?) {
        val before = counted
        val totals = before.answer?.let { before.totals.with(it.statistics) } ?: before.totals
        counted = Counted(totals, before.answers + if (answer == null) 0 else 1, answer)
    }

    /** Forgets the conversation and its counts, not the system prompt and not what was learned. */
    fun forgetText() {
        turns = emptyList()
        message = null
        counted = Counted(Statistics(), 0, null)
    }
}

/**
 * What a session belongs to.
 *
 * @property draftFingerprint of the drafter's vocabulary.
 * @property targetFingerprint of the target's vocabulary.
 * @property graphs the SHA-256 of each file of the graphs, by path.
 * @property adapters digest of the adapter in use by role; a role without one is absent.
 */
internal data class Identity(
    val draftFingerprint: String,
    val targetFingerprint: String,
    val graphs: Map<String, String>,
    val adapters: Map<Role, String> = emptyMap(),
)

/**
 * The last generation of a session.
 *
 * @property config its settings, with the seed that was used.
 * @property prompt target ids.
 * @property output target ids.
 * @property context the same text in draft ids; null where no drafter was loaded.
 * @property random state of SplitMix64.
 * @property stopReason why it ended; null when it can continue.
 * @property logprobs of the output, if they were asked for.
 */
internal class SavedAnswer(
    val config: GenerationConfig,
    val prompt: IntArray,
    val output: IntArray,
    val context: IntArray?,
    val random: Long,
    val stopReason: StopReason?,
    val logprobs: DoubleArray = DoubleArray(0),
)

/**
 * All of a session but its cache.
 *
 * @property omnidraft version of the package that wrote it.
 * @property identity what the session belongs to.
 * @property costs seconds on this device.
 * @property lengths what the draft length "auto" learned.
 * @property turns earlier turns of a conversation.
 * @property message the message that is being answered; null where every message has its turn.
 * @property answer the last generation; null before the first, and where it was taken back.
 * @property system the system prompt; null for none.
 */
internal class SavedSession(
    val omnidraft: String,
    val identity: Identity,
    val costs: Costs,
    val lengths: LengthState,
    val turns: List<Turn>,
    val message: String?,
    val answer: SavedAnswer?,
    val system: String? = null,
)
