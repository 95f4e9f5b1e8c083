package io.omnidraft.vocab

import io.omnidraft.vocab.tokenizer.CompiledTokenizer
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.concurrent.Callable
import java.util.concurrent.Executors
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/**
 * Compiled tokenizers of real models give the ids of the package `tokenizers` on real lines.
 *
 * Lines and ids are in the folder of the system property `omnidraft.tokenizers`, which
 * scripts/android/tokenizer_lines.py writes; without it the test is skipped.
 */
class TokenizerLinesTest {
    private val names = listOf("starter-a", "starter-b", "starter-drafter", "llama2", "llama3", "qwen2", "gpt2", "phi3")

    @TestFactory
    fun `ids of real lines`(): List<DynamicTest> = names.map { name ->
        DynamicTest.dynamicTest(name) {
            val folder = folder()
            val texts = textsIn(folder)
            val ids = listsIn(File(folder, "$name.ids"), Int.SIZE_BYTES).map { idsOf(it) }
            val tokenizer = CompiledTokenizer.fromFile(File(folder, "$name.bin"))
            assertEquals(texts.size, ids.size, "lists of ids of $name")
            assertTrue(texts.size >= 20_000, "only ${texts.size} texts")
            for (i in texts.indices) assertArrayEquals(ids[i], tokenizer.encode(texts[i]), texts[i])
            for (text in texts) checkSpelling(tokenizer, text)
        }
    }

    private fun checkSpelling(tokenizer: CompiledTokenizer, text: String) {
        val data = text.toByteArray()
        val spelled = tokenizer.spell(data) ?: throw AssertionError("no spelling of $text")
        assertArrayEquals(data, tokenizer.textOf(spelled), text)
    }

    @TestFactory
    fun `four threads share one tokenizer`(): List<DynamicTest> = listOf("starter-drafter", "llama3").map { name ->
        DynamicTest.dynamicTest(name) {
            val folder = folder()
            val texts = textsIn(folder).filterIndexed { i, _ -> i % 10 == 0 }
            val ids = listsIn(File(folder, "$name.ids"), Int.SIZE_BYTES).filterIndexed { i, _ -> i % 10 == 0 }
            val tokenizer = CompiledTokenizer.fromFile(File(folder, "$name.bin"))
            val threads = Executors.newFixedThreadPool(4)
            try {
                val one = Callable { texts.indices.all { idsOf(ids[it]).contentEquals(tokenizer.encode(texts[it])) } }
                assertTrue(threads.invokeAll(List(4) { one }).all { it.get() }, "a thread got other ids")
            } finally {
                threads.shutdownNow()
            }
        }
    }

    private fun folder(): File {
        val path = System.getProperty("omnidraft.tokenizers")
        assumeTrue(path != null && File(path).isDirectory) {
            "omnidraft.tokenizers names no folder; scripts/android/tokenizer_lines.py writes one from the task data"
        }
        return File(path)
    }

    private fun textsIn(folder: File): List<String> =
        listsIn(File(folder, "lines.bin"), 1).map { String(bytesOf(it), Charsets.UTF_8) }

    private fun listsIn(file: File, itemBytes: Int): List<ByteBuffer> {
        val data = ByteBuffer.wrap(file.readBytes()).order(ByteOrder.LITTLE_ENDIAN)
        val lists = ArrayList<ByteBuffer>()
        while (data.hasRemaining()) {
            val size = data.getInt() * itemBytes
            lists.add(data.slice().order(ByteOrder.LITTLE_ENDIAN).limit(size).slice().order(ByteOrder.LITTLE_ENDIAN))
            data.position(data.position() + size)
        }
        return lists
    }

    private fun idsOf(list: ByteBuffer): IntArray =
        IntArray(list.limit() / Int.SIZE_BYTES) { list.getInt(Int.SIZE_BYTES * it) }

    private fun bytesOf(list: ByteBuffer): ByteArray = ByteArray(list.limit()) { list.get(it) }
}
