package io.omnidraft.exchange

import io.omnidraft.PullOutcome
import io.omnidraft.bundle.fromDirectory
import io.omnidraft.bundle.openBundle
import io.omnidraft.device.Measure
import io.omnidraft.disk.dump
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.sha256
import io.omnidraft.learning.online.LearningController
import io.omnidraft.learning.optionsIn
import io.omnidraft.learning.responsesIn
import io.omnidraft.models.Role
import io.omnidraft.models.encodeAdapter
import io.omnidraft.models.readAdapter
import io.omnidraft.session.LoadedBundle
import io.omnidraft.session.Loading
import io.omnidraft.session.Session
import io.omnidraft.session.loadBundle
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.encode
import io.omnidraft.traces.readSegments
import io.omnidraft.vocab.encode
import io.omnidraft.vocab.readTable
import java.io.File

/*
 * Reads what a runtime of any language wrote: `ReadExchange BUNDLE FOLDER REPORT` writes into REPORT what it makes of the
 * files, in the form of scripts/phones/exchange.py.
 */

fun main(arguments: Array<String>) {
    val (bundle, folder, report) = arguments.map { File(it) }
    val found = loadBundle(openBundle(bundle), Loading(measure = Measure.NEVER)).use { loaded ->
        val found = linkedMapOf(
            "session" to talk(loaded, File(folder, "talk.session")),
            "cache" to cache(loaded, File(folder, "cache.odc")),
            "adapter" to adapter(loaded, File(folder, "learned.safetensors")),
            "trace" to trace(loaded, File(folder, "traces")),
        )
        val release = File(folder, "release")
        if (release.isDirectory) found["release"] = release(loaded, release)
        found
    }
    report.writeBytes(dump(found))
}

private fun talk(loaded: LoadedBundle, file: File): Map<String, Any?> = Session(loaded).use { session ->
    session.load(file)
    linkedMapOf(
        "begun" to checkNotNull(session.answer).tokenIds.toList(),
        "resumed" to session.resume().finish().tokenIds.toList(),
        "after" to session.chat(MESSAGES[2], GREEDY).finish().tokenIds.toList(),
    )
}

private fun cache(loaded: LoadedBundle, file: File): Map<String, Any?> {
    val table = readTable(file, loaded.vocabMap)
    return mapOf("ngrams" to table.size, "again" to hexOf(sha256(encode(table))))
}

private fun adapter(loaded: LoadedBundle, file: File): Map<String, Any?> {
    val adapter = readAdapter(file)
    val answer = Session(loaded, adapter = file).use { it.generate(MESSAGES[0], SAMPLED).finish() }
    return mapOf(
        "digest" to adapter.digest,
        "again" to hexOf(sha256(encodeAdapter(adapter))),
        "ids" to answer.tokenIds.toList(),
        "counts" to listOf(answer.statistics.rounds, answer.statistics.acceptedDrafts),
    )
}

private fun trace(loaded: LoadedBundle, place: File): Map<String, Any?> {
    val segments = readSegments(place, Vocabularies.of(loaded.vocabMap)).map { it.second }.toList()
    val generations = segments.flatMap { it.generations() }
    return mapOf(
        "generations" to generations.size,
        "rounds" to generations.sumOf { it.rounds.size },
        "responses" to responsesIn(place, loaded).size,
        "again" to segments.map { hexOf(sha256(encode(it))) },
    )
}

private fun release(loaded: LoadedBundle, store: File): Map<String, Any?> = fromDirectory { place ->
    val options = optionsIn(place)
    Session(loaded).use { session ->
        LearningController(session, options, File(store, "key").readBytes()).use { learning ->
            check(learning.pull(File(store, learning.releaseName).readBytes()) == PullOutcome.SWITCHED)
            mapOf("adapter" to session.adapters[Role.DRAFTER]?.digest, "ngrams" to session.cache.size)
        }
    }
}
