package io.omnidraft.bundle

import io.omnidraft.BundleException
import io.omnidraft.archive.ArchiveStream
import io.omnidraft.archive.openArchive
import io.omnidraft.archive.readChecked
import io.omnidraft.conformance.hex
import io.omnidraft.conformance.vectorsOf
import io.omnidraft.support.changedBytes
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.ByteArrayInputStream
import java.io.File
import java.nio.ByteBuffer
import kotlin.random.Random

/** Changed manifests, archives and graphs: each is refused by a named fault, or read; nothing else is thrown. */
class BundleFuzzTest {
    private val random = Random(20_261_122)

    @Test
    fun `ten thousand changed manifests are refused by name or read`() = inDirectory { place ->
        writeFiles(place)
        val fields = String(fullManifest()).substringAfter("\",")
        assertEquals(64, openAs(place, fullManifest()).seal.length)
        val faults = HashMap<String, Int>()
        repeat(FILES) {
            // With a right seal the change reaches the fields; without, only the seal is tested.
            val text = changedText(fields)
            val data = if (random.nextInt(8) == 0) changedBytes(fullManifest(), random) else sealed(text)
            count(faults, "read") { openAs(place, data) }
        }
        val names =
            setOf("unreadable", "not_a_bundle", "version", "seal", "field", "no_hash", "outside", "size", "checksum")
        assertTrue(faults.keys.containsAll(names), "some faults never came up: $faults")
        assertTrue(faults.getValue("read") in FILES / 100..FILES / 2, "too few or too many were read: $faults")
        assertEquals(names + "read", faults.keys - "missing", "a fault that the chapter does not name: $faults")
    }

    @Test
    fun `manifests as large as they may be are refused by name, whatever is in them`() = inDirectory { place ->
        val fillers = listOf("1e9,", "\"\",", "[],", "[[[]]],", "\"\\u0041\",", "0,")
        val arrays = fillers.map { { "[" + it.repeat((BundleLimits.MAX_MANIFEST_BYTES - 8) / it.length) + "0]" } }
        val names = {
            val text = StringBuilder("{")
            while (text.length < BundleLimits.MAX_MANIFEST_BYTES - 20) text.append("\"${text.length.toString(36)}\":0,")
            text.append("\"a\":0}").toString()
        }
        for (text in arrays + names) {
            val fault = count(HashMap(), "read") { openAs(place, text().toByteArray()) }
            assertTrue(fault == "not_a_bundle" || fault == "unreadable", fault)
        }
    }

    @Test
    fun `ten thousand changed archives are refused by name or read, and a stream of them too`() = inDirectory { place ->
        val whole = phoneArchive()
        val used = whole.indices.filter { whole[it] != 0.toByte() }
        val file = File(place, "archive.zip")
        val faults = HashMap<String, Int>()
        repeat(FILES) {
            val data = changedArchive(whole, used)
            file.writeBytes(data)
            val ofFile = count(faults, "read") { checkHashes(openArchive(file)) }
            val ofStream = count(HashMap(), "read") { readStream(data) }
            assertEquals(ofFile == "read", ofStream == "read", "file: $ofFile, stream: $ofStream")
        }
        val names = setOf(
            "not_an_archive", "truncated", "header", "encrypted", "descriptor", "compressed", "outside", "alignment",
            "trailing_bytes", "directory", "checksum",
        )
        assertTrue(faults.keys.containsAll(names), "some faults never came up: $faults")
    }

    @Test
    fun `ten thousand changed graphs are refused by name or read`() {
        val graphs = vectorsOf("bundle/graph").map { it.input["graph"].hex() }.filter { it.isNotEmpty() }
        val faults = HashMap<String, Int>()
        repeat(FILES) {
            val graph = changedBytes(graphs.random(random), random)
            val fault = try {
                externalFiles(ByteBuffer.wrap(graph))
                "read"
            } catch (error: GraphFileException) {
                error.fault
            }
            faults[fault] = 1 + (faults[fault] ?: 0)
        }
        assertEquals(setOf("outside", "graph", "read"), faults.keys)
    }

    private fun openAs(place: File, manifest: ByteArray): Bundle {
        File(place, MANIFEST).writeBytes(manifest)
        return openBundle(place)
    }

    private fun readStream(data: ByteArray) {
        ArchiveStream.open(ByteArrayInputStream(data), File("archive")).use { stream ->
            stream.archive.files.forEach { readChecked(stream.archive, stream, it) { _, _ -> } }
            stream.finish()
        }
    }

    private fun count(faults: MutableMap<String, Int>, read: String, run: () -> Unit): String {
        val fault = try {
            run()
            read
        } catch (error: BundleException) {
            assertTrue(error.fault.isNotEmpty() && !error.message.isNullOrEmpty(), "a refusal without a name: $error")
            error.fault
        }
        faults[fault] = 1 + (faults[fault] ?: 0)
        return fault
    }

    /** A text of JSON with a value, a digit, a name or any part changed; most of them are JSON still. */
    private fun changedText(text: String): String = when (random.nextInt(16)) {
        in 0..8 -> value(text).let { text.replaceRange(it.first, it.last + 1, VALUES.random(random)) }
        9 -> value(text).let { text.replaceRange(it.first, it.last + 1, text.substring(value(text))) }
        in 10..13 -> digits(text)
        14 -> text.indices.filter { text[it].isLetter() }.random(random).let { text.replaceRange(it, it + 1, "x") }
        else -> String(changedBytes(text.toByteArray(), random), Charsets.ISO_8859_1)
    }

    /** The place of a value that is no array and no object. */
    private fun value(text: String): IntRange {
        val begin = text.indices.filter { text[it] in ":[," && text[it + 1] !in "[{" }.random(random) + 1
        val isText = text[begin] == '"'
        val end = if (isText) text.indexOf('"', begin + 1) + 1 else text.indexOfAny(",]}".toCharArray(), begin)
        return begin until end
    }

    /** Another number or another hexadecimal digit: sizes, hashes and ids. */
    private fun digits(text: String): String {
        val at = text.indices.filter { text[it].isDigit() }.random(random)
        val digit = listOf("0", "1", "9", "-1", "99999999999", "1e9", "0.5", "f").random(random)
        return text.replaceRange(at, at + 1, digit)
    }

    private fun changedArchive(whole: ByteArray, used: List<Int>): ByteArray {
        val data = whole.copyOf()
        val at = used.random(random)
        return when (random.nextInt(10)) {
            0 -> data.copyOf(at)
            1 -> data + ByteArray(1 + random.nextInt(9))
            2 -> data.copyOf(at) + data.copyOfRange(minOf(data.size, at + 1 + random.nextInt(64)), data.size)
            3 -> data.copyOf(at) + ByteArray(1 + random.nextInt(64)) + data.copyOfRange(at, data.size)
            4 -> data.also { it[random.nextInt(30)] = random.nextInt().toByte() }
            5 -> data.also { it[random.nextInt(data.size)] = random.nextInt().toByte() }
            else -> data.also { it[at] = (it[at].toInt() xor (1 shl random.nextInt(8))).toByte() }
        }
    }

    private companion object {
        const val FILES = 10_000
        val VALUES = listOf(
            "null", "true", "-1", "0", "1", "2147483648", "9007199254740993", "1e400", "0.5", "\"\"", "\"a\"",
            "\"../a\"", "[]", "{}", "[1,2]", "{\"a\":1}", "[[]]", "\"\\ud800\"", "\"\\u0000\"", "\u0001", "NaN",
            "\"omnidraft.bundle\"", "[".repeat(40), "\"1\"", "3",
        )
    }
}
