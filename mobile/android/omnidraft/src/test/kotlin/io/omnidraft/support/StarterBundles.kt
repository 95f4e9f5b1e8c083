package io.omnidraft.support

import io.omnidraft.GenerationConfig
import io.omnidraft.GenerationConfig.Mode
import io.omnidraft.GenerationConfig.Verification
import io.omnidraft.bundle.CPU_GRAPH
import io.omnidraft.bundle.Verify
import io.omnidraft.bundle.openBundle
import io.omnidraft.conformance.Json
import io.omnidraft.conformance.bool
import io.omnidraft.conformance.int
import io.omnidraft.conformance.list
import io.omnidraft.conformance.num
import io.omnidraft.conformance.obj
import io.omnidraft.conformance.str
import io.omnidraft.device.Measure
import io.omnidraft.disk.parse
import io.omnidraft.session.LoadedBundle
import io.omnidraft.session.Loading
import io.omnidraft.session.loadBundle
import org.junit.jupiter.api.Assumptions.assumeTrue
import java.io.File

/** The starter bundles that scripts/android/bundles.sh exports: the system property `omnidraft.bundles`. */
internal object StarterBundles {
    /** A bundle or an archive that Python made; a test that asks for one is left out where there are none. */
    fun directory(name: String): File {
        val place = System.getProperty("omnidraft.bundles")
        assumeTrue(place != null, "omnidraft.bundles is not set; scripts/android/bundles.sh makes the bundles")
        return File(place, name)
    }

    /** What Python wrote for a bundle: scripts/android/expected_ids.py. */
    fun expected(name: String): File = directory("expected/$name")

    /** A loaded bundle, with the costs of its manifest: nothing is measured. */
    fun load(name: String, place: String = CPU_GRAPH): LoadedBundle {
        val loading = Loading(targetOn = place, drafterOn = place, measure = Measure.NEVER)
        return loadBundle(openBundle(directory(name), verify = Verify.FULL), loading)
    }

    /** The prompts, settings and ids that Python wrote. */
    fun ids(name: String): Json = parse(File(expected(name), "ids.json").readBytes()).obj()

    /** A config with settings by their names in Python. */
    fun config(settings: Json, seed: Long?): GenerationConfig {
        val known = setOf(
            "max_new_tokens", "temperature", "mode", "num_draft_tokens", "stop", "top_k", "top_p", "min_p",
            "repetition_penalty", "verification", "logprobs",
        )
        check(known.containsAll(settings.keys)) { "${settings.keys - known} is unknown here" }
        return GenerationConfig(
            maxNewTokens = settings["max_new_tokens"].int(),
            temperature = settings["temperature"]?.num() ?: 0.0,
            seed = seed,
            mode = settings["mode"]?.let { modeOf(it) } ?: Mode.TRIE,
            numDraftTokens = settings["num_draft_tokens"]?.takeIf { it != "auto" }?.int(),
            stop = settings["stop"]?.list()?.map { it.str() } ?: emptyList(),
            topK = settings["top_k"]?.int() ?: 0,
            topP = settings["top_p"]?.num() ?: 1.0,
            minP = settings["min_p"]?.num() ?: 0.0,
            repetitionPenalty = settings["repetition_penalty"]?.num() ?: 1.0,
            verification = Verification.values().first { it.word == (settings["verification"] ?: "auto") },
            logprobs = settings["logprobs"]?.bool() ?: false,
        )
    }
}

internal fun modeOf(name: Any?): Mode = Mode.values().first { it.word == name }
