package io.omnidraft.vocab

import io.omnidraft.support.randomMap
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import kotlin.random.Random

/** The trie beside a plain search through all spellings, on random maps. */
class TrieTest {
    @Test
    fun `nodes, children and targets are those of the active spellings`() {
        repeat(300) { seed ->
            val random = Random(seed)
            val map = randomMap(random)
            val trie = ActiveTrie(map)
            val grams = map.leaves.indices.filter { map.leafLengths[it] > 1 && random.nextBoolean() }
            trie.activateAll(grams.filterIndexed { i, _ -> i % 2 == 0 }.toIntArray())
            for (leaf in grams.filterIndexed { i, _ -> i % 2 == 1 }) trie.activate(leaf)
            for (leaf in grams.filter { random.nextInt(4) == 0 }) trie.deactivate(leaf)
            val active = map.leaves.filter { trie.active[map.leafOf[it]] }.associateBy { map.spell(it).toList() }
            val spelled = ArrayList<Int>()
            trie.forEachSpelled { spelled.add(it) }
            assertEquals(active.values.sorted(), spelled.sorted()) // each comes once
            for (draft in 0 until map.draftSize) check(trie, active, listOf(draft), trie.root(draft))
        }
    }

    /** Compares a node, and all below it, with the spellings that begin as its path does. */
    private fun check(trie: ActiveTrie, active: Map<List<Int>, Int>, path: List<Int>, node: Node?) {
        val below = active.filterKeys { it.size >= path.size && it.subList(0, path.size) == path }
        assertEquals(below.isNotEmpty(), node != null, "$path")
        if (node == null) return
        assertEquals(below.values.toSet(), trie.targets(node).toSet())
        assertEquals(active[path], trie.terminal(node))
        assertEquals(path.last(), trie.draftToken(node))
        val deeper = below.filterKeys { it.size > path.size }
        assertEquals(deeper.isNotEmpty(), trie.goesOn(node))
        val children = trie.children(node)
        assertEquals(deeper.keys.map { it[path.size] }.toSortedSet().toList(), children.tokens.toList())
        val owners = children.targets.indices.associate { children.targets[it] to children.tokens[children.owner[it]] }
        assertEquals(deeper.entries.associate { it.value to it.key[path.size] }, owners)
        for (token in 0 until trie.map.draftSize) check(trie, active, path + token, trie.child(node, token))
    }
}
