package io.omnidraft.parts

/*
 * The address of a drafter that bundles share: a digest of its files, from the manifest alone
 * (spec/16-archive.md, "A shared drafter").
 */

import io.omnidraft.disk.hexOf
import io.omnidraft.disk.sha256
import java.io.File

internal const val DRAFTER = "drafter/"

/** The directory beside the bundles. */
internal const val SHARED = "drafters"
private const val HEADER = "omnidraft.drafter 1\n"

/** Size and hash of a file in a manifest. */
internal interface FileRecord {
    val sha256: String
    val bytes: Long
}

/** SHA-256 over a line for each file below `drafter/`, in the order of the bytes of their names. */
internal fun drafterAddress(files: Map<String, FileRecord>): String {
    val lines = StringBuilder(HEADER)
    for ((name, record) in files.filterKeys { it.startsWith(DRAFTER) }.toSortedMap(BY_UTF8)) {
        lines.append("${record.sha256} ${record.bytes} $name\n")
    }
    return hexOf(sha256(lines.toString().toByteArray()))
}

/** Texts in the order of their bytes in UTF-8, which is not the order of UTF-16 units. */
internal val BY_UTF8: Comparator<String> = Comparator { a, b -> compareBytes(a.toByteArray(), b.toByteArray()) }

private fun compareBytes(a: ByteArray, b: ByteArray): Int {
    for (i in 0 until minOf(a.size, b.size)) {
        if (a[i] != b[i]) return (a[i].toInt() and 0xff) - (b[i].toInt() and 0xff)
    }
    return a.size - b.size
}

/** The directory of a shared drafter: beside the directory that a bundle really is in. */
internal fun sharedPlace(bundle: File, address: String): File =
    File(File(bundle.canonicalFile.parentFile, SHARED), address)
