package io.omnidraft.bundle

import io.omnidraft.BundleException
import io.omnidraft.archive.Archive
import io.omnidraft.archive.contentsOf
import io.omnidraft.archive.readChecked
import io.omnidraft.conformance.ROOT
import io.omnidraft.conformance.archiveOf
import io.omnidraft.conformance.jsonOf
import io.omnidraft.conformance.list
import io.omnidraft.conformance.str
import java.io.File
import java.nio.file.Files
import org.junit.jupiter.api.Assertions.assertThrows

/** A directory that is removed at the end. */
internal fun inDirectory(run: (File) -> Unit): Unit = fromDirectory(run)

/** What [run] makes of a directory that is removed at the end. */
internal fun <T> fromDirectory(run: (File) -> T): T {
    val place = Files.createTempDirectory("omnidraft").toFile().canonicalFile
    try {
        return run(place)
    } finally {
        place.deleteRecursively()
    }
}

internal fun faultOf(run: () -> Unit): String = assertThrows(BundleException::class.java) { run() }.fault

/** The files that the manifests of the vectors list; the content of each is its name. */
internal fun writeFiles(place: File) {
    for (name in jsonOf("bundle/files.json").list()) {
        val file = File(place, name.str())
        file.parentFile.mkdirs()
        file.writeText(name.str())
    }
}

/** A manifest that has every field, with a right seal. */
internal fun fullManifest(): ByteArray = sealed(String(File(ROOT, "bundle/full.body").readBytes()).drop(1))

/** A manifest with a right seal. */
internal fun sealed(fields: String): ByteArray {
    val open = "{\"seal\": \"${"0".repeat(64)}\","
    val seal = sealOf((open + fields).toByteArray())
    return (open.replace("0".repeat(64), seal) + fields).toByteArray()
}

/** The archive of the vectors: a small bundle, packed for a phone. */
internal fun phoneArchive(): ByteArray = archiveOf(mapOf("base" to "phone", "edits" to emptyList<Any>()))

/** Reads every file of an archive and compares its hash with the manifest's. */
internal fun checkHashes(archive: Archive) = contentsOf(archive).use { contents ->
    for (name in archive.files) readChecked(archive, contents, name) { _, _ -> }
}
