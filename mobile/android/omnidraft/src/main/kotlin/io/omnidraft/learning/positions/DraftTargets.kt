package io.omnidraft.learning.positions

import io.omnidraft.vocab.ActiveTrie
import io.omnidraft.vocab.Node
import io.omnidraft.vocab.VocabMap
import kotlin.math.max
import kotlin.math.min

/* The target's distribution over *draft* tokens at each position of a draft context (spec/13-learner.md). */

private const val NOTHING = 1e-12 // mass below which a conditional distribution is rounding

/** A distribution over draft tokens and OTHER, of sum 1. */
internal class DraftDistribution(
    val ids: IntArray, // distinct draft ids
    val probabilities: DoubleArray, // of these ids
    val other: Double, // probability of OTHER, all draft tokens that are not listed
    val weight: Double = 1.0, // probability that the target continues with a token that the drafter can write
) {
    /** The [count] most likely ids (ties: the first); the mass of the others moves to OTHER. */
    fun top(count: Int): DraftDistribution {
        if (ids.size <= count) return this
        val kept = likeliest(probabilities, count)
        val listed = DoubleArray(count) { probabilities[kept[it]] }
        val lost = probabilities.sum() - listed.sum()
        return DraftDistribution(IntArray(count) { ids[kept[it]] }, listed, other + max(lost, 0.0), weight)
    }
}

/** The places of the largest numbers, ascending; of equal numbers the first. */
private fun likeliest(numbers: DoubleArray, count: Int): IntArray {
    val sorted = numbers.sortedArray()
    val least = sorted[sorted.size - count]
    var ties = count - numbers.count { it > least }
    val kept = IntArray(count)
    var at = 0
    for (i in numbers.indices) {
        if (numbers[i] < least || (numbers[i] == least && ties == 0)) continue
        if (numbers[i] == least) ties -= 1
        kept[at++] = i
    }
    return kept
}

/** The trie with every spelling active, as with a prefilled cache. */
internal fun fullTrie(vocabMap: VocabMap): ActiveTrie {
    val trie = ActiveTrie(vocabMap)
    trie.activateAll(vocabMap.leaves.indices.filter { vocabMap.leafLengths[it] > 1 }.toIntArray())
    return trie
}

/** The node of the first [depth] draft tokens of a spelling; null if the trie does not have it, or for none. */
internal fun nodeOf(trie: ActiveTrie, spelling: IntArray, depth: Int = spelling.size): Node? {
    var node = if (depth > 0) trie.root(spelling[0]) else null
    for (i in 1 until depth) node = node?.let { trie.child(it, spelling[i]) }
    return node
}

internal fun hasChildren(trie: ActiveTrie, node: Node): Boolean = trie.goesOn(node)

/** At the start of a spelling: the mass below each child of the root; null where that mass is 0. */
internal fun rootDistribution(trie: ActiveTrie, rows: TargetRows, row: Int): DraftDistribution? {
    val leaves = leavesOf(trie, rows, row)
    val sums = byToken(leaves) { trie.map.leafFirsts[it] }
    val rest = rows.rest[row]
    val total = sums.masses.sum() + rest
    if (total <= NOTHING) return null
    return DraftDistribution(sums.ids, divided(sums.masses, total), rest / total, min(total, 1.0))
}

/**
 * Inside a spelling: P(child | node), and P(END | node) as OTHER; null where the row lists nothing below the node.
 *
 * The draft token after an END is unknown, because the target continued with another token than the one that ends here.
 */
internal fun insideDistribution(trie: ActiveTrie, rows: TargetRows, row: Int, node: Node): DraftDistribution? =
    below(trie, rows, row, node)

/**
 * Right after the token that a node spells, emitted at [row]: the target could have continued to a child.
 *
 * Children have P(child | node). All other draft tokens have P(END | node) times the next row's root distribution
 * ([following]) outside the children, renormalised: a draft token that is a child is never read as the start of a new
 * spelling (`E` of spec/04-speculation.md).
 */
internal fun afterDistribution(
    trie: ActiveTrie,
    rows: TargetRows,
    row: Int,
    node: Node,
    following: DraftDistribution?,
): DraftDistribution? {
    val inside = below(trie, rows, row, node) ?: return following
    if (following == null) { // after the END comes a token that the drafter cannot write
        val total = inside.probabilities.sum()
        if (total <= NOTHING) return null
        return DraftDistribution(inside.ids, divided(inside.probabilities, total), 0.0, total)
    }
    val children = trie.children(node).tokens // ascending
    val outside = following.ids.indices.filter { children.binarySearch(following.ids[it]) < 0 }
    val left = outside.sumOf { following.probabilities[it] } + following.other
    val ended = inside.other * following.weight
    val weight = 1.0 - inside.other + ended
    if (weight <= NOTHING) return null
    val share = if (left > NOTHING) ended / weight / left else 0.0
    return DraftDistribution(
        inside.ids + IntArray(outside.size) { following.ids[outside[it]] },
        divided(inside.probabilities, weight) + DoubleArray(outside.size) { following.probabilities[outside[it]] * share },
        if (left > NOTHING) following.other * share else ended / weight,
        weight,
    )
}

/** Some leaves in trie order, with the probabilities of their tokens. */
private class Leaves(val leaves: IntArray, val probabilities: DoubleArray)

private class Sums(val ids: IntArray, val masses: DoubleArray)

private fun leavesOf(trie: ActiveTrie, rows: TargetRows, row: Int): Leaves {
    val listed = rows.ids[row]
    val found = LongArray(listed.size)
    var count = 0
    for (i in listed.indices) {
        val leaf = trie.map.leafOf[listed[i]]
        if (leaf >= 0 && trie.active[leaf]) found[count++] = (leaf.toLong() shl 32) or i.toLong()
    }
    found.sort(0, count)
    val leaves = IntArray(count) { (found[it] ushr 32).toInt() }
    return Leaves(leaves, DoubleArray(count) { rows.probabilities[row][found[it].toInt()] })
}

/** P(child | node) by draft token, and P(END | node) as OTHER; null where the row lists nothing below the node. */
private fun below(trie: ActiveTrie, rows: TargetRows, row: Int, node: Node): DraftDistribution? {
    val listed = leavesOf(trie, rows, row)
    val places = listed.leaves.indices.filter { listed.leaves[it] in node.low until node.high }
    val mass = places.sumOf { listed.probabilities[it] }
    if (mass <= NOTHING) return null
    val (ends, goOn) = places.partition { trie.map.leafLengths[listed.leaves[it]] == node.depth }
    val longer = Leaves(
        IntArray(goOn.size) { listed.leaves[goOn[it]] },
        DoubleArray(goOn.size) { listed.probabilities[goOn[it]] },
    )
    val sums = byToken(longer) { trie.map.piece(it, node.depth) }
    return DraftDistribution(sums.ids, divided(sums.masses, mass), ends.sumOf { listed.probabilities[it] } / mass)
}

/** The sums of the probabilities by draft token; in trie order the tokens ascend, at one depth of one node. */
private inline fun byToken(leaves: Leaves, token: (Int) -> Int): Sums {
    val ids = IntArray(leaves.leaves.size)
    val sums = DoubleArray(ids.size)
    var count = 0
    for (i in ids.indices) {
        val id = token(leaves.leaves[i])
        if (count == 0 || ids[count - 1] != id) ids[count++] = id
        sums[count - 1] += leaves.probabilities[i]
    }
    return Sums(ids.copyOf(count), sums.copyOf(count))
}

private fun divided(numbers: DoubleArray, divisor: Double) = DoubleArray(numbers.size) { numbers[it] / divisor }
