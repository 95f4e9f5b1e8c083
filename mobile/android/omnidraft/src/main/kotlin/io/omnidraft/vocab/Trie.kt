package io.omnidraft.vocab

/*
 * The spellings of all target tokens as one sorted array, and the nodes of its trie as ranges.
 *
 * A node is a run of leaves that share their first `depth` draft tokens. So the trie of a vocabulary of 150,000 tokens
 * needs no memory beyond the map. The n-gram cache decides which leaves are *active*.
 */

/** Leaves [low] until [high], whose spellings agree in their first [depth] draft tokens. */
internal data class Node(val low: Int, val high: Int, val depth: Int)

/** Active children of a node. */
internal class Children(val tokens: IntArray, val targets: IntArray, val owner: IntArray)

/** The trie over the active leaves: direct pairs always, n-grams once learned. One thread uses it. */
internal class ActiveTrie(val map: VocabMap) {
    val active: BooleanArray = BooleanArray(map.leaves.size) { map.leafLengths[it] == 1 }

    /** Whether some active spelling begins with each draft token. */
    val rootMask: BooleanArray = BooleanArray(map.draftSize) { map.direct[it] >= 0 }

    /** Target tokens of the active n-grams, ascending: the first [size] entries. */
    var gramTargets: IntArray = IntArray(64)
        private set

    /** The first draft token of the spelling of each of [gramTargets]. */
    var gramFirsts: IntArray = IntArray(64)
        private set

    /** Active n-grams. */
    var size: Int = 0
        private set

    /** Draft ids of the direct pairs, ascending. */
    val directDrafts: IntArray get() = map.directDrafts

    val directTargets: IntArray get() = map.directTargets

    /** Target tokens of the active n-grams, ascending, as a copy. */
    fun grams(): IntArray = gramTargets.copyOf(size)

    /** Activates the leaf of an n-gram, which is inactive, and returns its index in [gramTargets]. */
    fun activate(leaf: Int): Int {
        check(!active[leaf]) { "leaf $leaf is active already" }
        if (size == gramTargets.size) {
            gramTargets = grown(gramTargets, size + 1)
            gramFirsts = grown(gramFirsts, size + 1)
        }
        val at = place(map.leaves[leaf])
        gramTargets.copyInto(gramTargets, at + 1, at, size)
        gramFirsts.copyInto(gramFirsts, at + 1, at, size)
        gramTargets[at] = map.leaves[leaf]
        gramFirsts[at] = map.leafFirsts[leaf]
        size++
        setActive(leaf)
        return at
    }

    /** Activates many leaves of n-grams at once; they are distinct and inactive. */
    fun activateAll(leaves: IntArray) {
        for (leaf in leaves) {
            check(!active[leaf]) { "leaf $leaf is active already" }
            setActive(leaf)
        }
        val targets = IntArray(size + leaves.size)
        gramTargets.copyInto(targets, 0, 0, size)
        for (i in leaves.indices) targets[size + i] = map.leaves[leaves[i]]
        targets.sort()
        gramTargets = targets
        gramFirsts = IntArray(targets.size) { map.leafFirsts[map.leafOf[targets[it]]] }
        size = targets.size
    }

    private fun setActive(leaf: Int) {
        active[leaf] = true
        rootMask[map.leafFirsts[leaf]] = true
    }

    /** Deactivates the leaf of an n-gram, and returns the index that it had in [gramTargets]. */
    fun deactivate(leaf: Int): Int {
        val first = map.leafFirsts[leaf]
        val at = place(map.leaves[leaf])
        check(at < size && gramTargets[at] == map.leaves[leaf]) { "leaf $leaf is not an active n-gram" }
        gramTargets.copyInto(gramTargets, at, at + 1, size)
        gramFirsts.copyInto(gramFirsts, at, at + 1, size)
        size--
        active[leaf] = false
        rootMask[first] = map.direct[first] >= 0 || anyActive(map.firstOffsets[first], map.firstOffsets[first + 1])
        return at
    }

    /** The index in [gramTargets] where a target token is, or belongs. */
    fun place(target: Int): Int = firstNot(0, size) { gramTargets[it] < target }

    /** The child of the root for a draft token, if an active spelling begins with it. */
    fun root(token: Int): Node? =
        if (rootMask[token]) Node(map.firstOffsets[token], map.firstOffsets[token + 1], 1) else null

    /** The child of an inner node for a draft token, if an active spelling continues with it. */
    fun child(node: Node, token: Int): Node? {
        val low = below(node)
        val first = bound(node, low, token, includes = false)
        val last = bound(node, first, token, includes = true)
        return if (anyActive(first, last)) Node(first, last, node.depth + 1) else null
    }

    /** The target token spelled exactly by the path to a node, if it is active; else null. */
    fun terminal(node: Node): Int? =
        if (active[node.low] && map.leafLengths[node.low] == node.depth) map.leaves[node.low] else null

    fun draftToken(node: Node): Int = map.piece(node.low, node.depth - 1)

    fun goesOn(node: Node): Boolean = anyActive(below(node), node.high)

    /** Active target tokens at or below a node, in trie order. */
    fun targets(node: Node): IntArray = activeTargets(node.low, node.high)

    fun children(node: Node): Children {
        val tokens = IntList()
        val low = below(node)
        val targets = activeTargets(low, node.high)
        val owner = IntArray(targets.size)
        var at = 0
        for (leaf in low until node.high) {
            if (!active[leaf]) continue
            val token = map.piece(leaf, node.depth)
            if (tokens.size == 0 || tokens[tokens.size - 1] != token) tokens.add(token)
            owner[at++] = tokens.size - 1
        }
        return Children(tokens.toArray(), targets, owner)
    }

    /** Calls [action] with each target token that has an active spelling: direct partners, then n-grams. */
    inline fun forEachSpelled(action: (Int) -> Unit) {
        for (target in directTargets) action(target)
        for (at in 0 until size) action(gramTargets[at])
    }

    fun anyActive(low: Int, high: Int): Boolean {
        for (leaf in low until high) if (active[leaf]) return true
        return false
    }

    private fun activeTargets(low: Int, high: Int): IntArray {
        var count = 0
        for (leaf in low until high) if (active[leaf]) count++
        val targets = IntArray(count)
        var at = 0
        for (leaf in low until high) if (active[leaf]) targets[at++] = map.leaves[leaf]
        return targets
    }

    /** The first leaf of a node whose spelling goes on behind the node. */
    private fun below(node: Node): Int = node.low + if (map.leafLengths[node.low] == node.depth) 1 else 0

    /** The first leaf of a node, from [low] on, that goes on with a larger draft token, or with [token] itself. */
    private fun bound(node: Node, low: Int, token: Int, includes: Boolean): Int = firstNot(low, node.high) {
        val piece = map.piece(it, node.depth)
        piece < token || (includes && piece == token)
    }
}

/** A copy with room for this number of entries and a quarter more, so that growing stays cheap. */
internal fun grown(array: IntArray, entries: Int): IntArray = array.copyOf(entries + entries / 4 + 64)
