package io.omnidraft.session

import io.omnidraft.Grammar
import io.omnidraft.Stats
import io.omnidraft.decoding.Costs
import io.omnidraft.decoding.DecoderState
import io.omnidraft.decoding.LengthState
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.session.state.Statistics
import io.omnidraft.session.state.Turn
import io.omnidraft.vocab.NgramCache

/* The state of a session's text, in memory and as the values that a session file holds. */

internal class TextState(
    @Volatile var cache: NgramCache,
    @Volatile var costs: Costs, // seconds on this device, which the draft length "auto" uses
    @Volatile var decoder: DecoderState = DecoderState(), // the text in both vocabularies
    var random: SplitMix64 = SplitMix64(0), // the source of randomness of the last generation
    @Volatile var lengths: LengthState = LengthState(), // what the draft length "auto" learned of the texts so far
    @Volatile var turns: List<Turn> = emptyList(), // earlier turns of a conversation
    @Volatile var asked: Turn? = null, // what is being answered; null where every message has its turn
    @Volatile var system: String? = null, // the system prompt of texts that begin in the template; null for none
    @Volatile var tools: String? = null, // that the model may call, as the prompt lists them; null without any
) {
    /** What the last answer had to belong to, where [asked] is not null; of a restored one it is not known. */
    @Volatile var wanted: Grammar? = null

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

    /** Forgets the conversation and its counts, not system prompt, tools and what was learned. */
    fun forgetText() {
        turns = emptyList()
        asked = null
        counted = Counted(Statistics(), 0, null)
    }
}
