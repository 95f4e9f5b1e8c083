package io.omnidraft.session.state

import io.omnidraft.GenerationConfig
import io.omnidraft.GenerationConfig.Mode
import io.omnidraft.PromptException
import io.omnidraft.SettingException
import io.omnidraft.bundle.ModelEntry
import io.omnidraft.decoding.FixedLength
import io.omnidraft.decoding.SamplingConfig
import io.omnidraft.decoding.StopText
import io.omnidraft.disk.encodeUtf8

/*
 * The settings of a generation: what they mean, and which are refused. The class is part of the public interface;
 * session files hold its values.
 */

private const val MAX_STOPS = 64
private const val MAX_STOP_BYTES = 1024
internal const val TOO_LONG = "shorten it, or export with a larger --max-length where the target has more positions"

/** How the target's logits become a distribution. */
internal val GenerationConfig.sampling: SamplingConfig
    get() = SamplingConfig(temperature, topK, topP, minP, repetitionPenalty)

internal val GenerationConfig.asksDrafter: Boolean get() = mode == Mode.TRIE

internal val GenerationConfig.copies: Boolean
    get() = mode == Mode.LOOKUP || (mode == Mode.TRIE && numDraftTokens == null)

/** Refuses settings outside their ranges. */
internal fun GenerationConfig.check() {
    sampling
    if (maxNewTokens < 1) {
        val message = "maxNewTokens $maxNewTokens is less than 1"
        throw SettingException(message, "ask for at least one token", "maxNewTokens")
    }
    numDraftTokens?.let { FixedLength(it) }
    StopText(stop)
    val longest = stop.maxOfOrNull { encodeUtf8(it).size } ?: 0
    if (stop.size > MAX_STOPS || longest > MAX_STOP_BYTES) {
        val message = "stop has ${stop.size} strings of up to $longest bytes"
        throw SettingException(message, "give at most $MAX_STOPS of at most $MAX_STOP_BYTES bytes", "stop")
    }
}

internal fun checkPrompt(ids: IntArray, target: ModelEntry, tooLong: String = TOO_LONG) {
    val limit = target.kv.maxLength
    if (ids.isEmpty()) throw PromptException("the prompt has no tokens", "give at least one")
    val wrong = ids.firstOrNull { it !in 0 until target.vocabSize }
    if (wrong != null) {
        throw PromptException("token id $wrong is outside the target's 0..${target.vocabSize - 1}")
    }
    if (ids.size > limit) {
        throw PromptException("the prompt has ${ids.size} tokens and the context holds $limit", tooLong)
    }
}
