package io.omnidraft.support

import io.omnidraft.vocab.VocabMap
import kotlin.random.Random

/**
 * A vocabulary map with random spellings of 1 to 4 draft tokens, which often begin alike. Some target tokens have none,
 * and some are aliases, whose spelling is that of another one.
 *
 * @param drafts width of the drafter's logits.
 * @param targets width of the target's logits.
 */
internal fun randomMap(random: Random, drafts: Int = 12, targets: Int = 40): VocabMap {
    val spelled = List(targets) { if (random.nextInt(8) == 0) listOf() else spelling(random, drafts) }
    val seen = HashSet<List<Int>>()
    val firsts = spelled.indices.filter { spelled[it].isNotEmpty() && seen.add(spelled[it]) }
    val leaves = firsts.sortedWith { a, b -> compare(spelled[a], spelled[b]) }
    val direct = IntArray(drafts) { -1 }
    for (leaf in leaves) if (spelled[leaf].size == 1) direct[spelled[leaf][0]] = leaf
    return VocabMap(
        targetBytes = rows(spelled.map { it.toIntArray() }),
        direct = direct,
        spellings = rows(spelled.map { it.toIntArray() }),
        expansions = rows(List(drafts) { IntArray(if (random.nextInt(4) == 0) 2 else 0) { random.nextInt(targets) } }),
        leaves = leaves.toIntArray(),
        draftAllowed = BooleanArray(drafts) { true },
        draftFingerprint = "d".repeat(64),
        targetFingerprint = "e".repeat(64),
    )
}

private fun spelling(random: Random, drafts: Int): List<Int> =
    List(1 + random.nextInt(4)) { random.nextInt(if (it == 0) drafts else minOf(3, drafts)) }

private fun compare(a: List<Int>, b: List<Int>): Int {
    for (at in 0 until minOf(a.size, b.size)) if (a[at] != b[at]) return a[at].compareTo(b[at])
    return a.size.compareTo(b.size)
}
