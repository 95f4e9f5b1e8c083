package io.omnidraft.bundle

/* Files of a bundle as they are used: the bytes that were hashed, and graphs with weights in the bundle. */

import io.omnidraft.BundleException
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.mapFile
import io.omnidraft.disk.quoted
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.sha256
import io.omnidraft.reason
import java.io.File
import java.io.IOException
import java.nio.ByteBuffer

/** Bytes of the graph of a training step, whose weights are beside it. */
internal const val MOST_STEP = 1 shl 28

/** The bytes of a file, which have the size and hash of the manifest at the moment when they are used. */
internal fun checkedBytes(bundle: Bundle, name: String, most: Int): ByteArray {
    val file = bundle.file(name)
    val record = bundle.files[name] ?: throw noHash(bundle.path, name)
    val data = try {
        readWhole(file, minOf(most.toLong(), record.bytes))
    } catch (error: IOException) {
        val message = "$file cannot be read (${reason(error)})"
        throw BundleException("unreadable", message, "run `omnidraft export` again", error)
    }
    if (data.size.toLong() != record.bytes || hexOf(sha256(data)) != record.sha256) throw changed(file)
    return data
}

/**
 * The path of a graph whose weights are all in files that the manifest lists.
 *
 * onnxruntime opens what a graph names, and older versions also outside of the bundle. The caller calls
 * [checkUnchanged] after the graph is loaded.
 */
internal fun checkedGraph(bundle: Bundle, name: String): File {
    val file = bundle.file(name)
    val data = try {
        mapFile(file)
    } catch (error: IOException) {
        val remedy = "copy the whole bundle or run `omnidraft export` again"
        throw BundleException("unreadable", "$file cannot be read (${reason(error)})", remedy, error)
    }
    checkPlaces(bundle, name, placesIn(file, data), name.split("/").dropLast(1), file.parentFile)
    return file
}

/** The bytes of the graph of a training step, whose weights are all in files that the manifest lists. */
internal fun checkedStep(bundle: Bundle, name: String, folder: String): ByteArray {
    val file = bundle.file(name)
    val parts = folder.split("/").filter { it.isNotEmpty() && it != "." }
    if (folder.startsWith("/") || ".." in parts || '\\' in folder) {
        throw refused(file, "its weights are in ${quoted(folder)}, which is outside the bundle")
    }
    val data = checkedBytes(bundle, name, MOST_STEP)
    val opened = if (parts.isEmpty()) bundle.path else bundle.file(parts.joinToString("/"))
    checkPlaces(bundle, name, placesIn(file, ByteBuffer.wrap(data)), parts, opened)
    return data
}

private fun placesIn(file: File, graph: ByteBuffer): Set<String> = try {
    externalFiles(graph)
} catch (error: GraphFileException) {
    throw refused(file, error.message.orEmpty(), error.fault)
}

/** Refuse weights that are not in files that the manifest lists, or that were left out. */
private fun checkPlaces(bundle: Bundle, name: String, places: Set<String>, folder: List<String>, opened: File) {
    for (place in places.sorted()) {
        val listed = (folder + place).joinToString("/")
        if (listed !in bundle.files) {
            throw refused(bundle.file(name), "its weights are in ${quoted(place)}, which the manifest does not list")
        }
        if (bundle.file(listed) != File(opened, place)) { // the file that was hashed
            throw refused(bundle.file(name), "its weights are in ${quoted(place)}, beside a shared drafter")
        }
    }
}

private fun refused(file: File, why: String, fault: String = "outside"): BundleException =
    BundleException(fault, "$file is refused: $why", "do not use this bundle")
