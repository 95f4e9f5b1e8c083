package io.omnidraft.sample

import io.omnidraft.Stats

/**
 * What one text was written with, without drafts and with them.
 *
 * @property bundle its name.
 * @property form how the target's weights are stored, as in the bundle's manifest: `fp32`, `int8`, `int4`.
 */
class Benchmark(val bundle: String, val form: String, val plain: Stats, val drafted: Stats) {
    /**
     * One line of JSON for a developer's table.
     *
     * @param device maker, model and system.
     * @param heat the throttle level, 0 to 3.
     */
    fun line(device: String, cores: Int, heat: Int): String = listOf(
        "device" to quoted(device),
        "cores" to cores,
        "bundle" to quoted(bundle),
        "form" to quoted(form),
        "plain_tokens_per_second" to speed(plain),
        "drafted_tokens_per_second" to speed(drafted),
        "tokens_per_target_pass" to rounded(drafted.tokensPerTargetPass),
        "acceptance" to rounded(drafted.acceptance),
        "peak_memory" to drafted.peakMemory,
        "heat" to heat,
    ).joinToString(", ", "{", "}") { (name, value) -> "\"$name\": $value" }

    /** Tokens a second without the reading of the prompt; JSON's null where nothing was measured. */
    private fun speed(stats: Stats): String? =
        stats.seconds.values.sum().let { if (it > 0) rounded(stats.emitted / it) else null }
}

/** A string of JSON; of what a device is named, only these two characters have to be written otherwise. */
private fun quoted(text: String) = "\"${text.replace("\\", "\\\\").replace("\"", "\\\"")}\""
