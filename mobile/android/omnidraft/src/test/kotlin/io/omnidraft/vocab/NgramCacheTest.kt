package io.omnidraft.vocab

import io.omnidraft.support.randomMap
import io.omnidraft.support.vectorMap
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.random.Random

/** The cache beside the rules of spec/06-ngram-cache.md written plainly, on random maps and rounds. */
class NgramCacheTest {
    /** The rules with a map of entries. */
    private class Plain(val map: VocabMap, val capacity: Int) {
        val entries = HashMap<Int, Entry>()
        var tick = 0L

        fun order(): List<Entry> = entries.values.sortedWith(compareBy({ it.hits }, { it.tick }, { it.targetId }))

        fun learn(emitted: IntArray, accepted: Int) {
            tick++
            for ((i, t) in emitted.withIndex()) {
                if (t !in entries && t in map.leaves && map.spell(t).size in 2..255) {
                    if (entries.size >= capacity) entries.remove(order().first().targetId)
                    entries[t] = Entry(t, 0, 0, tick)
                }
                val old = entries[t] ?: continue
                entries[t] = Entry(t, old.hits + 1, old.accepted + if (i < accepted) 1 else 0, tick)
            }
        }
    }

    @Test
    fun `learning and eviction as the rules say`() {
        repeat(200) { seed ->
            val random = Random(seed)
            val map = randomMap(random)
            val capacity = 1 + random.nextInt(8)
            val plain = Plain(map, capacity)
            val cache = NgramCache(map, capacity)
            repeat(40) {
                val emitted = IntArray(random.nextInt(5)) { random.nextInt(map.targetSize) }
                val accepted = random.nextInt(emitted.size + 1)
                plain.learn(emitted, accepted)
                cache.learn(emitted, accepted)
                assertEquals(plain.entries.values.sortedBy { it.targetId }, cache.entries(), "seed $seed")
            }
            checkTrie(cache)
            checkRoom(cache, plain)
        }
    }

    /** What the trie has active is what the cache holds. */
    private fun checkTrie(cache: NgramCache) {
        val map = cache.map
        val active = map.leaves.indices.filter { cache.trie.active[it] }.map { map.leaves[it] }.toSet()
        val direct = map.direct.filter { it >= 0 }
        assertEquals(active, (direct + cache.entries().map { it.targetId }).toSet())
        val firsts = active.map { map.spell(it)[0] }.toSet()
        assertEquals(firsts, cache.trie.rootMask.indices.filter { cache.trie.rootMask[it] }.toSet())
        assertArrayEquals(
            cache.trie.grams().map { map.spell(it)[0] }.toIntArray(), cache.trie.gramFirsts.copyOf(cache.size),
        )
    }

    /** Less room evicts the same entries from a file's table and by the rules. */
    private fun checkRoom(cache: NgramCache, plain: Plain) {
        val room = 1 + cache.size / 2
        val kept = plain.order().drop(maxOf(0, cache.size - room)).sortedBy { it.targetId }
        val loaded = NgramCache.ofTable(decode(encode(cache.table())), cache.map, room)
        assertEquals(kept, loaded.entries())
        assertEquals(cache.tick, loaded.tick)
        checkTrie(loaded)
    }

    @Test
    fun `a prefilled cache has every n-gram, and room for them`() {
        val map = vectorMap("toy")
        val cache = NgramCache(map, 1)
        cache.learn(intArrayOf(5), 1)
        val grams = map.leaves.filter { map.spell(it).size > 1 }.sorted()
        assertEquals(grams.size - 1, cache.prefill())
        assertEquals(grams, cache.entries().map { it.targetId })
        assertEquals(listOf(1L, 0L), listOf(5, 6).map { t -> cache.entries().first { it.targetId == t }.hits })
        assertTrue(cache.capacity >= grams.size)
    }
}
