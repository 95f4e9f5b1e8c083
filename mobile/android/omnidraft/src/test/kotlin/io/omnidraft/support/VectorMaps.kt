package io.omnidraft.support

import io.omnidraft.conformance.bool
import io.omnidraft.conformance.hex
import io.omnidraft.conformance.ints
import io.omnidraft.conformance.jsonOf
import io.omnidraft.conformance.list
import io.omnidraft.conformance.obj
import io.omnidraft.conformance.str
import io.omnidraft.vocab.ActiveTrie
import io.omnidraft.vocab.Ragged
import io.omnidraft.vocab.VocabMap

internal fun vectorMap(name: String): VocabMap {
    val content = jsonOf("maps/$name.json").obj()
    val allowed = content["draft_allowed"].list()
    return VocabMap(
        targetBytes = rows(content["target_bytes"].list().map { each -> each.hex().map { it.toInt() and 0xff }.toIntArray() }),
        direct = content["direct"].ints(),
        spellings = rows(content["spellings"].list().map { it.ints() }),
        expansions = rows(content["expansions"].list().map { it.ints() }),
        leaves = content["leaves"].ints(),
        draftAllowed = BooleanArray(allowed.size) { if (allowed[it] is Boolean) allowed[it].bool() else allowed[it] == 1L },
        draftFingerprint = content["draft_fingerprint"].str(),
        targetFingerprint = content["target_fingerprint"].str(),
    )
}

/** The trie of a map with some n-grams active, by their target ids. */
internal fun trieWith(map: VocabMap, active: IntArray): ActiveTrie =
    ActiveTrie(map).also { trie -> trie.activateAll(active.map { map.leafOf[it] }.toIntArray()) }

/** Rows of unequal length as one table. */
internal fun rows(rows: List<IntArray>): Ragged = Ragged.of(rows.size) { rows[it] }
