package io.omnidraft.session.state

import io.omnidraft.GenerationConfig
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.array
import io.omnidraft.disk.at
import io.omnidraft.disk.bitsOf
import io.omnidraft.disk.boolean
import io.omnidraft.disk.hex64
import io.omnidraft.disk.hexadecimal
import io.omnidraft.disk.integer
import io.omnidraft.disk.real
import io.omnidraft.disk.text

/* The settings of a generation in the state of a session file, and words and numbers as the state has them. */

internal fun configObject(config: GenerationConfig): Map<String, Any?> = linkedMapOf(
    "max_new_tokens" to config.maxNewTokens.toLong(),
    "temperature" to bitsOf(config.temperature),
    "seed" to hex64(checkNotNull(config.seed) { "a generation that began has a seed" }),
    "mode" to config.mode.word,
    "num_draft_tokens" to (config.numDraftTokens?.toLong() ?: AUTO),
    "stop" to config.stop,
    "ignore_eos" to config.ignoreEos,
    "top_k" to config.topK.toLong(),
    "top_p" to bitsOf(config.topP),
    "min_p" to bitsOf(config.minP),
    "repetition_penalty" to bitsOf(config.repetitionPenalty),
    "verification" to config.verification.word,
    "logprobs" to config.logprobs,
)

/** The settings of a state. */
internal fun configOf(value: Map<String, Any?>): GenerationConfig {
    val lengths = value.at("num_draft_tokens")
    val config = GenerationConfig(
        maxNewTokens = integer(value.at("max_new_tokens"), 1),
        temperature = number(value.at("temperature")),
        seed = word(value.at("seed")),
        mode = named(value.at("mode"), GenerationConfig.Mode.values()) { it.word },
        numDraftTokens = if (lengths == AUTO) null else integer(lengths, 0),
        stop = array(value.at("stop")).map { text(it) },
        ignoreEos = boolean(value.at("ignore_eos")),
        topK = integer(value.at("top_k"), 0),
        topP = number(value.at("top_p")),
        minP = number(value.at("min_p")),
        repetitionPenalty = number(value.at("repetition_penalty")),
        verification = named(value.at("verification"), GenerationConfig.Verification.values()) { it.word },
        logprobs = boolean(value.at("logprobs")),
    )
    config.check()
    return config
}

private const val AUTO = "auto"

/** The value of a word; a word that none of them has is refused. */
internal inline fun <T> named(value: Any?, values: Array<T>, word: (T) -> String): T =
    values.firstOrNull { word(it) == value } ?: throw ValueError("$value is unknown".take(80))

/** A real of at least 0. */
internal fun number(value: Any?): Double = real(value, 0.0, Double.MAX_VALUE)

/** 64 bits as 16 hexadecimal digits: not every language has a number of JSON for them. */
internal fun word(value: Any?): Long = hexadecimal(value, 16).toULong(16).toLong()
