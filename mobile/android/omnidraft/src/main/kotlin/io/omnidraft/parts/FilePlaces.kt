package io.omnidraft.parts

/*
 * Where the files of a bundle are: in its directory, in a shared drafter beside it, or left out
 * (spec/16-archive.md, "Opening a bundle that lacks files").
 */

import io.omnidraft.BundleException
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.pathOf
import io.omnidraft.disk.quoted
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.sha256
import io.omnidraft.reason
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException
import java.nio.file.Files
import java.nio.file.LinkOption

internal data class FilePlaces(val path: File, val shared: File? = null, val index: PackIndex? = null) {
    /** The path at which a file of the bundle is, or would be. */
    fun place(name: String): File = when {
        shared != null && "$name/".startsWith(DRAFTER) -> File(shared, name.drop(DRAFTER.length))
        else -> File(path, name)
    }

    /** The path of a file of the bundle. */
    fun file(name: String): File {
        refuseLeftOut(name)
        return place(name)
    }

    /** Whether a file was left out when the bundle was packed for a device. */
    fun leftOut(name: String): Boolean = index != null && name in index.leftOut

    /** The names of a manifest's files that were not left out, in order. */
    fun present(files: Map<String, FileRecord>): List<String> = files.keys.filterNot { leftOut(it) }

    fun refuseLeftOut(name: String) {
        val devices = index?.leftOut?.get(name) ?: return
        val remedy = when {
            index.device in devices ->
                "pack the whole bundle for ${index.device} again, without --no-learning"
            devices.isEmpty() -> "use the whole bundle, which was not packed"
            else -> "unpack an archive that was packed with --for ${devices.joinToString(" or ")}"
        }
        val message = "${quoted(name)} was left out when $path was packed for ${index.device}"
        throw BundleException("left_out", message, remedy)
    }

    /** The paths on the way to a file that must not be links, the file first. */
    fun links(name: String): List<File> {
        val isShared = shared != null && name.startsWith(DRAFTER)
        val root = if (isShared) shared!! else path
        val parts = (if (isShared) name.drop(DRAFTER.length) else name).split("/")
        val below = (parts.size downTo 1).map { File(root, parts.take(it).joinToString("/")) }
        return if (isShared) below + root + root.parentFile else below
    }

    fun remedyFor(name: String): String = when {
        shared != null && name.startsWith(DRAFTER) ->
            "the bundle shares its drafter: copy ${shared.name} into ${shared.parentFile}"
        else -> "copy the whole bundle or run `omnidraft export` again"
    }
}

/**
 * Where the files of a bundle are.
 *
 * @param path the bundle's directory.
 * @param manifest the bytes of its manifest.json.
 * @throws BundleException `index` or `version`, of a pack.json that is refused; or `index`: it leaves out a file that is in
 *   the directory. pack.json is not signed, and a file that it leaves out is not hashed.
 */
internal fun findPlaces(path: File, manifest: ByteArray, files: Map<String, FileRecord>): FilePlaces {
    val index = indexOf(path, manifest, files)
    for (name in index?.leftOut?.keys.orEmpty()) {
        if (!Files.exists(pathOf(File(path, name)), LinkOption.NOFOLLOW_LINKS)) continue
        throw refused(File(path, INDEX), "it leaves out ${quoted(name)}, which is in the directory", "index")
    }
    val shared = if (files.keys.any { it.startsWith(DRAFTER) }) sharedDrafter(path, files) else null
    return FilePlaces(path, shared, index)
}

private fun sharedDrafter(path: File, files: Map<String, FileRecord>): File? = try {
    val holdsDrafter = Files.exists(pathOf(File(path, DRAFTER)), LinkOption.NOFOLLOW_LINKS)
    if (holdsDrafter) null else sharedPlace(path, drafterAddress(files))
} catch (error: IOException) {
    throw BundleException("missing", "$path cannot be read (${reason(error)})", "copy the whole bundle again")
}

private fun indexOf(path: File, manifest: ByteArray, files: Map<String, FileRecord>): PackIndex? {
    val file = File(path, INDEX)
    try {
        return readIndex(readWhole(file, MAX_INDEX_BYTES.toLong()), hexOf(sha256(manifest)), files.keys)
    } catch (_: FileNotFoundException) {
        return null
    } catch (error: IOException) {
        throw refused(file, reason(error), "index")
    } catch (error: PackIndexException) {
        throw refused(file, error.message.orEmpty(), error.fault)
    }
}

private fun refused(file: File, why: String, fault: String): BundleException =
    BundleException(fault, "$file is refused: $why", "unpack the archive again")
