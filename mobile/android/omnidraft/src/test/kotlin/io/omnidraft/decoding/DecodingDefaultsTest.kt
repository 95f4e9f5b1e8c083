package io.omnidraft.decoding

import io.omnidraft.conformance.DEFAULTS
import io.omnidraft.conformance.int
import io.omnidraft.conformance.num
import io.omnidraft.conformance.obj
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

/** The constants of the room are those of spec/defaults.json. */
class DecodingDefaultsTest {
    @Test
    fun theDraftLengthHasTheDefaultNumbers() {
        val actual = mapOf(
            "longest" to LONGEST.toDouble(), "shortest_match" to SHORTEST_MATCH.toDouble(),
            "longest_match" to LONGEST_MATCH.toDouble(), "decay" to DECAY, "prior_rounds" to PRIOR_ROUNDS,
            "prior_acceptance" to PRIOR_ACCEPTANCE, "copy_acceptance" to COPY_ACCEPTANCE, "text_rounds" to TEXT_ROUNDS,
            "probe" to PROBE.toDouble(), "first_share" to FIRST_SHARE, "last_share" to LAST_SHARE,
        )
        assertEquals(DEFAULTS["draft_length"].obj().mapValues { it.value.num() }, actual)
    }

    @Test
    fun theRoundHasTheDefaultNumbers() {
        val block = DEFAULTS["block"].obj()
        val lookup = DEFAULTS["prompt_lookup"].obj()
        assertEquals(DEFAULTS["max_draft_tokens"].int(), MAX_DRAFT_TOKENS)
        assertEquals(DEFAULTS["max_proposed_tokens"].int(), MAX_PROPOSED)
        assertEquals(listOf("gain", "extra_seconds", "extra_seconds_per_token").map { block[it].num() },
            listOf(GAIN, EXTRA_SECONDS, EXTRA_SECONDS_PER_TOKEN))
        assertEquals(listOf("longest", "shortest").map { lookup[it].int() }, listOf(LONGEST_SUFFIX, SHORTEST_SUFFIX))
    }

    @Test
    fun theSamplingHasTheDefaultNumbers() {
        val sampling = SamplingConfig()
        val names = listOf("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
        val actual = with(sampling) { listOf(temperature, topK.toDouble(), topP, minP, repetitionPenalty) }
        assertEquals(names.map { DEFAULTS[it].num() }, actual)
    }
}
