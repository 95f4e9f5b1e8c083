package io.omnidraft.conformance

import io.omnidraft.CacheFileException
import io.omnidraft.TokenizerException
import io.omnidraft.VocabMapException
import io.omnidraft.disk.hexOf
import io.omnidraft.support.vectorMap
import io.omnidraft.vocab.CacheTable
import io.omnidraft.vocab.Entry
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.Ragged
import io.omnidraft.vocab.VocabMap
import io.omnidraft.vocab.decode
import io.omnidraft.vocab.decodeVocabMap
import io.omnidraft.vocab.encode
import io.omnidraft.vocab.loadVocabMap
import io.omnidraft.vocab.merge
import io.omnidraft.vocab.openCache
import io.omnidraft.vocab.readTable
import io.omnidraft.vocab.tokenizer.CompiledTokenizer
import io.omnidraft.vocab.tokenizer.Control
import io.omnidraft.vocab.tokenizer.fingerprint
import io.omnidraft.vocab.tokenizer.openTokenizerFile
import java.io.File
import java.nio.ByteBuffer
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** Runs `tokenizer`, `tokenize`, `cache/...` and `map/...`: tokenizers, n-gram caches and vocabulary maps as files. */
class VocabVectorsTest : VectorsRun() {
    private val tokenizers = HashMap<File, CompiledTokenizer>()

    private fun tokenizer(file: File): CompiledTokenizer =
        tokenizers.getOrPut(file) { CompiledTokenizer.fromFile(file) }

    @TestFactory
    fun tokenizer(): List<DynamicTest> = folder("tokenizer") { vector ->
        val given = vector.input
        val tokenizer = tokenizer(vector.file(given["file"].str()))
        if ("prefix" in given) {
            val parts = listOf("prefix", "text", "suffix").map { given[it].str() }
            assertSame(vector, "ids", vector.expected["ids"], tokenizer.encodePrompt(parts, given["goes_on"].bool()))
        } else if ("text" in given) {
            assertSame(vector, "ids", vector.expected["ids"], tokenizer.encode(given["text"].str()))
        } else if ("spell" in given) {
            assertSame(vector, "ids", vector.expected["ids"], tokenizer.spell(given["spell"].hex()))
        } else {
            checkBytes(vector, tokenizer)
            val computed = fingerprint(tokenizer.tokens, tokenizer.controls.values)
            assertEquals(vector.expected["fingerprint"], computed, vector.why)
            assertEquals(computed, tokenizer.fingerprint, vector.why)
        }
    }

    private fun checkBytes(vector: Vector, tokenizer: CompiledTokenizer) {
        val tokens = tokenizer.tokens.map { if (it == null) null else hexOf(it) }
        assertSame(vector, "bytes", vector.expected["bytes"], tokens)
    }

    @TestFactory
    fun invalidTokenizer(): List<DynamicTest> = folder("tokenizer/invalid") { vector ->
        val file = vector.file(vector.input["file"].str())
        assertNull(unlessRefused(vector, TokenizerException::class.java) { openTokenizerFile(file) }, vector.why)
    }

    @TestFactory
    fun tokenize(): List<DynamicTest> = folder("tokenize") { vector ->
        val given = vector.input
        val expected = vector.expected
        val file = vector.file(given["tokenizer"].str().removeSuffix(".json") + ".bin")
        val tokenizer = tokenizer(file)
        if ("spell" in given) {
            assertSame(vector, "ids", expected["ids"], tokenizer.spell(given["spell"].hex()))
            assertEquals(given["spell"], hexOf(tokenizer.textOf(expected["ids"].ints())), vector.why)
        } else if ("prefix" in given) {
            val ids = tokenizer.encodePrompt(given["prefix"].str(), given["text"].str(), given["suffix"].str())
            assertSame(vector, "ids", expected["ids"], ids)
            assertEquals(expected["bytes"], hexOf(tokenizer.textOf(ids)), vector.why)
        } else {
            checkBytes(vector, tokenizer)
        }
    }

    @TestFactory
    fun learn(): List<DynamicTest> = folder("cache/learn") { vector ->
        val given = vector.input
        val map = vectorMap(given["map"].str())
        val capacity = given["capacity"].int()
        var cache = NgramCache(map, capacity)
        if (given["start"] != null) {
            val opened = openCache(vector.file(given["start"].str()), map, capacity)
            assertNull(opened.problem, vector.why)
            cache = opened.cache
        }
        val rounds = given["rounds"].list().map { it.obj() }
        val new = rounds.map { cache.learn(it["emitted"].ints(), it["accepted"].int()) }
        assertSame(vector, "new", vector.expected["new"], new)
        assertSame(vector, "entries", vector.expected["entries"], jsonOf(cache.entries()))
    }

    private fun jsonOf(entries: List<Entry>): List<Map<String, Any>> = entries.map {
        mapOf("target_id" to it.targetId, "hits" to it.hits, "accepted" to it.accepted, "tick" to it.tick)
    }

    @TestFactory
    fun load(): List<DynamicTest> = folder("cache/load") { vector ->
        val given = vector.input
        val map = vectorMap(given["map"].str())
        val (cache, problem) = openCache(vector.file(given["file"].str()), map, given["capacity"].int())
        assertNull(problem, vector.why)
        if (given["prefilled"]?.bool() == true) cache.prefill()
        for (round in given["rounds"]?.list().orEmpty().map { it.obj() }) {
            cache.learn(round["emitted"].ints(), round["accepted"].int())
        }
        assertSame(vector, "targets", vector.expected["targets"], cache.entries().map { it.targetId })
        vector.expected["entries"]?.let { assertSame(vector, "entries", it, jsonOf(cache.entries())) }
    }

    @TestFactory
    fun validCache(): List<DynamicTest> = folder("cache/valid") { vector ->
        val file = vector.file(vector.input["file"].str())
        val map = mapOf(vector)
        val table = readTable(file, map)
        assertSame(vector, "table", vector.expected["table"], jsonOf(table))
        assertArrayEquals(file.readBytes(), encode(table), "written again, the file is another one; ${vector.why}")
        if (map != null) {
            val (cache, problem) = openCache(file, map)
            assertEquals(null to table.size, problem to cache.size, vector.why)
            assertArrayEquals(file.readBytes(), encode(cache.table()), "loaded and saved, the file is another one")
        }
    }

    private fun mapOf(vector: Vector): VocabMap? = vector.input["map"]?.let { vectorMap(it.str()) }

    private fun jsonOf(table: CacheTable): Map<String, Any?> = mapOf(
        "draft_fingerprint" to table.draftFingerprint,
        "target_fingerprint" to table.targetFingerprint,
        "tick" to table.tick,
        "entries" to List(table.size) {
            mapOf(
                "target_id" to table.targets[it], "spelling" to table.spellings.row(it),
                "hits" to table.hits.unsigned(it), "accepted" to table.accepted.unsigned(it),
                "tick" to table.ticks.unsigned(it),
            )
        },
    )

    @TestFactory
    fun invalidCache(): List<DynamicTest> = folder("cache/invalid") { vector ->
        val file = vector.file(vector.input["file"].str())
        assertNull(unlessRefused(vector, CacheFileException::class.java) { readTable(file, mapOf(vector)) }, vector.why)
        // A session continues with an empty cache and says so.
        val (cache, problem) = openCache(file, mapOf(vector) ?: vectorMap("toy"))
        assertEquals(0, cache.size, vector.why)
        assertTrue(problem.orEmpty().startsWith("starting with an empty cache"), vector.why)
    }

    @TestFactory
    fun mergeCaches(): List<DynamicTest> = folder("cache/merge") { vector ->
        val (a, b) = listOf("a", "b").map { decode(vector.file(vector.input[it].str()).readBytes()) }
        val expected = vector.file(vector.expected["file"].str()).readBytes()
        assertArrayEquals(expected, encode(merge(a, b)), vector.why)
    }

    @TestFactory
    fun fingerprints(): List<DynamicTest> = folder("map/fingerprint") { vector ->
        val tokens = vector.input["tokens"].list().map { it?.hex() }
        val controls = vector.input["controls"].list().map { it.list() }
        val computed = fingerprint(tokens, controls.map { Control(it[0].int(), it[1].str(), false, false) })
        assertEquals(vector.expected["fingerprint"], computed, vector.why)
    }

    @TestFactory
    fun validMap(): List<DynamicTest> = folder("map/valid") { vector ->
        val expected = tablesOf(vectorMap(vector.expected["map"].str()))
        val read = tablesOf(loadVocabMap(vector.file(vector.input["file"].str())))
        for ((name, table) in expected) assertSame(vector, name, table, read[name])
    }

    private fun tablesOf(map: VocabMap): Map<String, Any> = mapOf(
        "target_bytes" to rowsOf(map.targetBytes), "direct" to map.direct, "spellings" to rowsOf(map.spellings),
        "expansions" to rowsOf(map.expansions), "leaves" to map.leaves, "draft_allowed" to map.draftAllowed,
        "draft_fingerprint" to map.draftFingerprint, "target_fingerprint" to map.targetFingerprint,
    )

    private fun rowsOf(ragged: Ragged): List<IntArray> = List(ragged.size) { ragged.row(it) }

    @TestFactory
    fun invalidMap(): List<DynamicTest> = folder("map/invalid") { vector ->
        val given = vector.input
        val data = if ("bytes" in given) given["bytes"].hex() else vector.file(given["file"].str()).readBytes()
        val read = unlessRefused(vector, VocabMapException::class.java) {
            val map = decodeVocabMap(ByteBuffer.wrap(data))
            given["models"]?.obj()?.let {
                map.checkFits(
                    it["draft_fingerprint"].str(), it["target_fingerprint"].str(),
                    it["draft_size"].int(), it["target_size"].int(),
                )
            }
        }
        assertNull(read, vector.why)
    }
}
