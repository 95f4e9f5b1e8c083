package io.omnidraft.vocab

import io.omnidraft.PromptException
import io.omnidraft.TokenizerException
import io.omnidraft.conformance.ROOT
import io.omnidraft.vocab.tokenizer.CompiledTokenizer
import io.omnidraft.vocab.tokenizer.ContentFinder
import io.omnidraft.vocab.tokenizer.characterLength
import io.omnidraft.vocab.tokenizer.codePoints
import io.omnidraft.vocab.tokenizer.decodePoints
import io.omnidraft.vocab.tokenizer.openTokenizerFile
import io.omnidraft.vocab.tokenizer.utf8
import java.io.File
import kotlin.random.Random
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

/** Code points, contents and merges beside plain rules; what a tokenizer refuses. */
class TokenizerTest {
    @TempDir
    lateinit var folder: File

    private fun tokenizer(name: String): CompiledTokenizer =
        CompiledTokenizer.fromFile(File(ROOT, "tokenizer/$name.bin"))

    @Test
    fun `half of a surrogate pair is refused`() {
        for (text in listOf("\uD83D", "a\uDE00", "\uDE00\uD83D")) {
            assertThrows(PromptException::class.java) { tokenizer("gpt2").encode(text) }
            assertThrows(PromptException::class.java) { tokenizer("llama2").encodePrompt("", text, "") }
        }
        assertTrue(tokenizer("gpt2").encode("\uD83D\uDE00").isNotEmpty())
    }

    @Test
    fun `code points are those of the platform`() {
        val random = Random(5)
        repeat(2_000) {
            val points = IntArray(random.nextInt(12)) { point(random) }
            val text = String(points, 0, points.size)
            assertArrayEquals(points, codePoints(text))
            val data = utf8(points, 0, points.size)
            assertArrayEquals(text.toByteArray(), data)
            assertArrayEquals(points, decodePoints(data, 0, data.size))
        }
    }

    private fun point(random: Random): Int {
        val point = random.nextInt(listOf(0x80, 0x900, 0x10000, 0x110000).random(random))
        return if (point in 0xD800..0xDFFF) 0xFFFD else point
    }

    @Test
    fun `characters of bytes are those of the platform's decoder`() {
        val random = Random(6)
        val bytes = listOf(
            0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0,
            0xF4, 0xF5, 0xFF,
        )
        repeat(20_000) {
            val data = ByteArray(1 + random.nextInt(5)) { bytes.random(random).toByte() }
            val length = characterLength(data, 0)
            val lengths = (1..minOf(4, data.size)).filter { isOneCharacter(data.copyOf(it)) }
            assertEquals(lengths.singleOrNull() ?: 0, length, data.toList().toString())
        }
    }

    private fun isOneCharacter(data: ByteArray): Boolean = try {
        val text = Charsets.UTF_8.newDecoder().decode(java.nio.ByteBuffer.wrap(data))
        Character.codePointCount(text, 0, text.length) == 1
    } catch (_: java.nio.charset.CharacterCodingException) {
        false
    }

    @Test
    fun `contents are found leftmost first, the longest of those`() {
        repeat(2_000) { seed ->
            val random = Random(seed)
            val contents = List(1 + random.nextInt(6)) { word(random, 1 + random.nextInt(4)) }.distinct()
            val text = word(random, random.nextInt(30))
            val found = ArrayList<String>()
            ContentFinder(contents).find(codePoints(text)) { start, end, which ->
                assertEquals(contents[which], text.substring(start, end))
                found.add("$start ${contents[which]}")
            }
            val expected = ArrayList<String>()
            var at = 0
            while (at < text.length) {
                val longest = contents.filter { text.startsWith(it, at) }.maxByOrNull { it.length }
                if (longest != null) expected.add("$at $longest")
                at += longest?.length ?: 1
            }
            assertEquals(expected, found, "$contents in $text")
        }
    }

    private fun word(random: Random, size: Int): String = String(CharArray(size) { "ab\u0100".random(random) })

    @Test
    fun `a long word takes no quadratic time`() {
        for (name in listOf("gpt2", "llama2", "llama3", "qwen")) {
            val tokenizer = tokenizer(name)
            for (text in listOf("ab".repeat(200_000), " ".repeat(400_000), "'\n".repeat(200_000))) {
                val spelled = tokenizer.spell(text.toByteArray())
                assertEquals(text, String(tokenizer.textOf(checkNotNull(spelled))))
                tokenizer.encode(text)
            }
        }
    }

    @Test
    fun `a file that is none or is too short is refused by name`() {
        val file = File(folder, "t.bin")
        fun fault(place: File): String =
            assertThrows(TokenizerException::class.java) { openTokenizerFile(place) }.fault
        assertEquals("unreadable", fault(file))
        assertEquals("unreadable", fault(folder))
        file.writeBytes(ByteArray(0))
        assertEquals("not_a_tokenizer", fault(file))
        file.writeText("ODTOKENS")
        assertEquals("truncated", fault(file))
    }
}
