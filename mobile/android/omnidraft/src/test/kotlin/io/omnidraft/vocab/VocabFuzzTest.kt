package io.omnidraft.vocab

import io.omnidraft.CacheFileException
import io.omnidraft.TokenizerException
import io.omnidraft.VocabMapException
import io.omnidraft.disk.crc32
import io.omnidraft.disk.u32
import io.omnidraft.support.changedBytes
import io.omnidraft.support.checkChanged
import io.omnidraft.support.putU32
import io.omnidraft.support.vectorFiles
import io.omnidraft.support.vectorMap
import io.omnidraft.vocab.tokenizer.CompiledTokenizer
import io.omnidraft.vocab.tokenizer.fingerprint
import io.omnidraft.vocab.tokenizer.readTokenizerFile
import java.nio.ByteBuffer
import kotlin.random.Random
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Test

/**
 * Changed files: each is refused by a named fault, or read and used; nothing else is thrown, and nothing takes for
 * ever.
 */
class VocabFuzzTest {
    private val maps = listOf("toy", "deep", "wide").map { vectorMap(it) }

    @Test
    fun `ten thousand changed caches`() {
        val faults = setOf(
            "not_a_cache", "truncated", "version", "checksum", "reserved", "width", "limits", "section_length",
            "trailing_bytes", "spelling", "id_range", "duplicate", "order", "counts", "not_canonical",
            "foreign_vocabulary",
        )
        val random = Random(20_261_122)
        val given = vectorFiles("cache/valid", ".bin").filter { it.size < 1 shl 16 }
        checkChanged(given, random, faults, CacheFileException::class.java) { given ->
            // With right checksums the change reaches the fields; without, only the checksums are tested.
            val data = changedBytes(given, random).let { if (random.nextInt(8) == 0) it else summed(it) }
            val table = decode(data)
            assertArrayEquals(data, encode(table), "written again, the file is another one")
            val map = maps.random(random)
            checkAgainst(table, map)
            NgramCache.ofTable(table, map, 1 + random.nextInt(8)).learn(intArrayOf(5, 6, 7), 1)
        }
    }

    /** The file with right checksums, as far as its lengths lead. */
    private fun summed(data: ByteArray): ByteArray {
        if (data.size < CACHE_HEADER_BYTES) return data
        var start = CACHE_HEADER_BYTES
        for (at in 92 until 132 step 8) {
            val end = minOf(data.size.toLong(), start + u32(data, at)).toInt()
            putU32(data, at + 4, crc32(data, start, end))
            start = end
        }
        putU32(data, 132, crc32(data, 0, 132))
        return data
    }

    @Test
    fun `ten thousand changed tokenizers`() {
        val faults = setOf(
            "not_a_tokenizer", "truncated", "version", "header", "layout", "offset", "role", "id", "merges", "classes",
            "strings", "added", "program", "step",
        )
        val random = Random(20_261_123)
        val given = vectorFiles("tokenizer", ".bin") + vectorFiles("tokenize", ".bin")
        val texts = listOf("Hello  world, don't\r\n 12345!", "\u00e9e\u0301 \u2581<s> \uD83D\uDE00", "a".repeat(300))
        checkChanged(given, random, faults, TokenizerException::class.java) { given ->
            val tokenizer = CompiledTokenizer(readTokenizerFile(ByteBuffer.wrap(changedBytes(given, random))))
            for (text in texts) {
                val ids = tokenizer.encodePrompt("<s>", text, "</s>", goesOn = random.nextBoolean())
                tokenizer.textOf(ids)
                val spelled = tokenizer.spell(text.toByteArray())
                if (spelled != null) assertArrayEquals(text.toByteArray(), tokenizer.textOf(spelled))
            }
            tokenizer.spell(random.nextBytes(20))
            fingerprint(tokenizer.tokens, tokenizer.controls.values)
        }
    }

    @Test
    fun `ten thousand changed maps`() {
        val faults = setOf(
            "not_a_map", "truncated", "version", "layout", "trailing_bytes", "missing_tensor", "extra_tensor", "dtype",
            "metadata", "offsets", "sizes", "id_range", "leaves", "direct",
        )
        val rare = setOf("extra_tensor", "sizes") // no change of some bytes leads there; vectors do
        val random = Random(20_261_124)
        val given = vectorFiles("map/valid", ".safetensors")
        checkChanged(given, random, faults, VocabMapException::class.java, rare) { given ->
            // Half of the changes are of a type or a digit, so that the header stays JSON.
            val data = if (random.nextBoolean()) changedBytes(given, random) else otherHeader(given, random)
            walk(decodeVocabMap(ByteBuffer.wrap(data)))
        }
    }

    /** A map with another type of a tensor, or another digit in its header. */
    private fun otherHeader(data: ByteArray, random: Random): ByteArray {
        val start = 8 + u32(data, 0).toInt()
        val header = String(data, 8, maxOf(0, minOf(start, data.size) - 8), Charsets.ISO_8859_1)
        val isType = random.nextInt(4) == 0
        val places = header.indices.filter { if (isType) header.startsWith("I32", it) else header[it].isDigit() }
        if (places.isEmpty()) return changedBytes(data, random)
        val at = places.random(random)
        val changed = data.copyOf()
        changed[8 + at] = if (header[at] == 'I') 'F'.code.toByte() else ('0'.code + random.nextInt(10)).toByte()
        return changed
    }

    /** Goes through all of a map and of its trie. */
    private fun walk(map: VocabMap) {
        NgramCache(map).prefill()
        val trie = ActiveTrie(map)
        trie.activateAll(map.leaves.indices.filter { !trie.active[it] }.toIntArray())
        for (target in 0 until map.targetSize) {
            map.bytesOf(target)
            val spelling = map.spell(target)
            var node = spelling.firstOrNull()?.let { trie.root(it) }
            for (token in spelling.drop(1)) node = node?.let { trie.child(it, token) }
            if (node != null) trie.targets(node).size + trie.children(node).tokens.size
        }
        for (draft in 0 until map.draftSize) map.expansions.row(draft)
    }
}
