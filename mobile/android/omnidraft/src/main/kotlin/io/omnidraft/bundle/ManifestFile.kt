package io.omnidraft.bundle

/* The file manifest.json: its bytes, its seal, and JSON in bounds (spec/03-bundle.md). */

import io.omnidraft.BundleException
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.mapping
import io.omnidraft.disk.newSha256
import io.omnidraft.disk.parse
import io.omnidraft.disk.quoted
import io.omnidraft.disk.readWhole
import io.omnidraft.reason
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException

internal const val BUNDLE_FORMAT = "omnidraft.bundle"
private const val VERSION = 3L
internal const val MANIFEST = "manifest.json"

private const val BEFORE = "{\"seal\": \""
private const val SEALED = BEFORE.length + 64 // what is sealed begins with the quotation mark behind the digits
private const val AGAIN = "run `omnidraft export` again"

internal fun readManifest(path: File): ByteArray {
    if (path.isFile) {
        val message = "$path is a file, and graphs are run from a bundle's directory"
        throw BundleException("no_bundle", message, "if it is an archive, unpack it with OmniDraft.unpack")
    }
    if (!path.isDirectory) {
        val remedy = "unpack a bundle there, or make one with `omnidraft export`"
        throw BundleException("no_bundle", "no bundle at $path", remedy)
    }
    val file = File(path, MANIFEST)
    try {
        return readWhole(file, BundleLimits.MAX_MANIFEST_BYTES.toLong())
    } catch (_: FileNotFoundException) {
        val message = "$path has no $MANIFEST, so it is not a bundle"
        throw BundleException("no_bundle", message, "make one with `omnidraft export`")
    } catch (error: IOException) {
        throw BundleException("unreadable", "$file is not readable (${reason(error)})", AGAIN, error)
    }
}

/** The fields of a manifest, their values unchecked. */
internal fun parseManifest(path: File, data: ByteArray): Map<String, Any?> {
    val file = File(path, MANIFEST)
    val value = try {
        parse(data)
    } catch (error: ValueError) {
        throw BundleException("unreadable", "$file is not readable (${error.message})", AGAIN, error)
    }
    if (value !is Map<*, *> || value["format"] != BUNDLE_FORMAT) {
        val message = "$file is not an $BUNDLE_FORMAT manifest"
        throw BundleException("not_a_bundle", message, "make one with `omnidraft export`")
    }
    if (value["version"] != VERSION) {
        val version = quoted(value["version"])
        val message = "$path is a bundle of version $version and this omnidraft reads version $VERSION"
        throw BundleException("version", message, "$AGAIN or install the omnidraft that wrote it")
    }
    if (!isSealed(data)) {
        val message = "$file was changed after it was written (its seal does not match)"
        throw BundleException("seal", message, AGAIN)
    }
    return mapping(value)
}

private fun isSealed(data: ByteArray): Boolean {
    if (data.size < SEALED + 2) return false
    val expected = BEFORE + sealOf(data) + "\","
    return String(data, 0, SEALED + 2, Charsets.ISO_8859_1) == expected
}

/** The seal that belongs into a manifest: the SHA-256 of all bytes after the digits of the seal. */
internal fun sealOf(data: ByteArray): String {
    val digest = newSha256()
    if (data.size > SEALED) digest.update(data, SEALED, data.size - SEALED)
    return hexOf(digest.digest())
}
