package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.Stats
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
 * @property answer the last generation; null where it was taken back.
 */
internal class TextState(
    @Volatile var cache: NgramCache,
    @Volatile var costs: Costs, // seconds on this device, which the draft length "auto" uses
    @Volatile var decoder: DecoderState = DecoderState(), // the text in both vocabularies
    var random: SplitMix64 = SplitMix64(0), // the source of randomness of the last generation
    @Volatile var lengths: LengthState = LengthState(), // what the draft length "auto" learned of the texts so far
    @Volatile var turns: List<Turn> = emptyList(), // earlier turns of a conversation
    @Volatile var message: String? = null, // the message that is being answered; null where every message has its turn
    @Volatile var system: String? = null, // the system prompt of texts that begin in the template; null for none
) {
    /** How often the drafter had been dropped when the last text began; see [SessionModels.drops]. */
    var drops: Int = 0

    /**
     * What statistics are made of, replaced as a whole: any thread may read it. The totals are of the generations before
     * the answer, since the conversation began; the number counts the answer, too.
     */
    private class Counted(val totals: Statistics, val answers: Int, val answer: Generation?) {
        fun all(): Statistics = answer?.let { totals.with(it.statistics) } ?: totals
    }

    @Volatile private var counted = Counted(Statistics(), 0, null)

    var answer: Generation?
        get() = counted.answer
        set(value) {
            counted = Counted(counted.totals, counted.answers, value)
        }

    /** Counts of all generations, the last one with it. */
    val stats: Stats get() = counted.let { it.all().stats(it.answers) }

    /** Puts a generation, or none, in the place of the last one, whose counts stay. */
    fun begin(answer: Generation?) {
        counted = Counted(counted.all(), counted.answers + if (answer == null) 0 else 1, answer)
    }

    /** Forgets the conversation and its counts, not the system prompt and not what was learned. */
    fun forgetText() {
        turns = emptyList()
        message = null
        counted = Counted(Statistics(), 0, null)
    }
}

internal data class Identity(
    val draftFingerprint: String,
    val targetFingerprint: String,
    val graphs: Map<String, String>, // the SHA-256 of each file of the graphs, by path
    val adapters: Map<Role, String> = emptyMap(), // digest of the adapter in use by role; a role without one is absent
)

/** The last generation of a session. */
internal class SavedAnswer(
    val config: GenerationConfig, // its settings, with the seed that was used
    val prompt: IntArray, // target ids
    val output: IntArray, // target ids
    val context: IntArray?, // the same text in draft ids; null where no drafter was loaded
    val random: Long, // state of SplitMix64
    val stopReason: StopReason?, // why it ended; null when it can continue
    val logprobs: DoubleArray = DoubleArray(0), // of the output, if they were asked for
)

internal class SavedSession(
    val omnidraft: String, // version of the package that wrote it
    val identity: Identity, // what the session belongs to
    val costs: Costs, // seconds on this device
    val lengths: LengthState, // what the draft length "auto" learned
    val turns: List<Turn>, // earlier turns of a conversation
    val message: String?, // the message that is being answered; null where every message has its turn
    val answer: SavedAnswer?, // the last generation; null before the first, and where it was taken back
    val system: String? = null, // the system prompt; null for none
)
