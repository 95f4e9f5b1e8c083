package io.omnidraft.bundle

/* Whether a bundle may be replaced: whatever else is in its directory would be lost (spec/16-archive.md). */

import io.omnidraft.counted
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.parse
import io.omnidraft.disk.pathOf
import io.omnidraft.disk.quoted
import io.omnidraft.disk.readWhole
import io.omnidraft.parts.INDEX
import java.io.File
import java.io.IOException
import java.nio.file.Files

private val BESIDE = setOf(MANIFEST, SIGNATURE, INDEX) // not listed in the manifest
private val LEFT_BY_SYSTEMS = setOf(".DS_Store", "Thumbs.db", "desktop.ini") // by file managers, in any directory

/**
 * Why a path that exists may not be replaced by a bundle, and the remedy; null where it may.
 *
 * An empty directory may be replaced, and a bundle that holds nothing but its own files. Its manifest tells which these
 * are, so that a directory with a damaged manifest stays, too.
 */
internal fun refusalToReplace(place: File): Pair<String, String>? {
    val isLink = Files.isSymbolicLink(pathOf(place))
    if (!isLink && place.isDirectory && place.list().orEmpty().isEmpty()) return null
    val files = if (isLink) null else filesOf(place)
    if (files == null) {
        val remedy = "choose another place, or delete it yourself"
        return "$place is not a bundle, so it is not overwritten" to remedy
    }
    val foreign = unlisted(place, files).filter { it.substringAfterLast('/') !in LEFT_BY_SYSTEMS }
    if (foreign.isEmpty()) return null
    val more = if (foreign.size > 1) " and ${counted(foreign.size - 1L, "other file")}" else ""
    val what = "${quoted(foreign[0])}$more, which the bundle does not list"
    return "$place holds $what, so it is not overwritten" to "move what is yours away, or choose another place"
}

/** The names that the files of a bundle have; null for what is not a bundle. */
private fun filesOf(place: File): Set<String>? {
    val manifest = File(place, MANIFEST)
    val value = try {
        if (Files.isSymbolicLink(pathOf(manifest))) return null
        parse(readWhole(manifest, BundleLimits.MAX_MANIFEST_BYTES.toLong()))
    } catch (_: IOException) {
        return null
    } catch (_: ValueError) {
        return null
    }
    if (value !is Map<*, *> || value["format"] != BUNDLE_FORMAT) return null
    val files = value["files"] as? Map<*, *> ?: return null
    return files.keys.map { it.toString() }.toSet()
}

/** Paths of the files and links in the directory of a bundle that its manifest does not list, ascending. */
internal fun unlisted(place: File, files: Set<String>): List<String> = (namesIn(place, "") - files - BESIDE).sorted()

/** Paths of all files and links below a directory; links are not followed. */
private fun namesIn(directory: File, before: String): Set<String> {
    val names = HashSet<String>()
    for (each in directory.listFiles().orEmpty()) {
        val isBelow = each.isDirectory && !Files.isSymbolicLink(pathOf(each))
        if (isBelow) names += namesIn(each, "$before${each.name}/") else names += before + each.name
    }
    return names
}
