package io.omnidraft.models

import ai.onnxruntime.OrtException
import io.omnidraft.bundle.Provider
import io.omnidraft.device.StateDirectory
import io.omnidraft.device.deleteOldest
import io.omnidraft.device.recordKey
import io.omnidraft.disk.pathOf
import io.omnidraft.disk.randomHex
import io.omnidraft.disk.removeLeftovers
import io.omnidraft.disk.rename
import io.omnidraft.disk.syncDirectory
import java.io.File
import java.io.IOException
import java.nio.channels.FileChannel
import java.nio.file.StandardOpenOption.WRITE

private const val KIND = "compiled"
private const val END = ".onnx"
private const val MOST_GRAPHS = 12 // three graphs of a target and of a drafter, of two bundles
private const val STALE_SECONDS = 3_600.0 // no graph takes longer to compile

/**
 * What a provider compiled for this device from the graphs of a bundle with a seal: a file for each graph, in the directory
 * of what the device remembers (spec/08-phones.md).
 */
internal class CompiledGraphs(private val state: StateDirectory, private val seal: String) {
    /**
     * What [load] makes of the compiled form of a graph, which is kept for the next time.
     *
     * @param load opens a graph, with more entries of onnxruntime's configuration.
     * @throws OrtException the engine refuses the graph.
     */
    fun <T> open(graph: File, provider: Provider, load: (File, Map<String, String>) -> T): T {
        val place = state.directory(KIND) ?: return load(graph, emptyMap())
        val options = provider.options.toSortedMap().flatMap { listOf(it.key, it.value) }
        val key = recordKey(seal, graph.path, Engine.version, provider.name, *options.toTypedArray())
        val kept = File(place, key + END)
        if (kept.exists()) {
            try {
                return load(kept, emptyMap())
            } catch (_: OrtException) {
                kept.delete() // of another driver, or damaged: compiled again
            }
        }
        val made = File(place, ".${kept.name}.${randomHex(8)}.tmp")
        try {
            return load(graph, compiling(made)).also { keep(made, kept) }
        } catch (_: OrtException) {
            return load(graph, emptyMap()) // perhaps only the file cannot be written
        } finally {
            made.delete() // absent unless it was not kept
        }
    }
}

/** The entries that make the engine write what it compiled, weights included, into one file. */
private fun compiling(file: File): Map<String, String> =
    mapOf("ep.context_enable" to "1", "ep.context_embed_mode" to "1", "ep.context_file_path" to file.path)

private fun keep(made: File, kept: File) {
    try {
        FileChannel.open(pathOf(made), WRITE).use { it.force(true) }
        rename(made, kept)
    } catch (_: IOException) {
        return // the provider wrote nothing, or the disk is full: the next opening compiles again
    }
    syncDirectory(kept.parentFile)
    removeLeftovers(kept, STALE_SECONDS)
    deleteOldest(kept.parentFile, END, MOST_GRAPHS)
}
