package io.omnidraft.decoding

import io.omnidraft.vocab.ActiveTrie
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.Node

/*
 * Translate a draft into target tokens: walk the active trie and note the decision at every draft token
 * (spec/04-speculation.md, section 4).
 */

/** What the walk does at a draft token. */
internal enum class Step(val word: String) {
    /** At the root: the draft token begins a spelling. */
    BEGIN("begin"),

    /** Inside a node: it continues one. */
    GO_ON("go on"),

    /** Inside a node: it does not, and the node is a whole token. */
    END("end"),

    /** Inside a node: it does not, and no token ends at the node; nothing is proposed. */
    DEAD_END("dead end"),

    /** One of several target tokens that spell a long draft token. */
    EXPAND("expand"),
}

/** One decision of the walk, which the verifier accepts or refuses. */
internal data class Decision(
    val step: Step,
    val row: Int, // index of the target row that verifies it: the number of target tokens proposed before it
    val draft: Int, // index of the draft token, whose distribution q proposes it
    val node: Node? = null, // the node that the walk goes to (BEGIN, GO_ON), or that it is in (END, DEAD_END)
    val parent: Node? = null, // the node that the walk leaves; for GO_ON
    val excluded: Node? = null, // the node of which this draft token is known not to be a child (`E`); for BEGIN
    val targetId: Int = -1, // the proposed token; for EXPAND
)

/**
 * A draft in target tokens.
 *
 * @property ends for each proposed token, the number of draft tokens that are used once it is accepted.
 */
internal class Proposal(
    val tokens: IntList = IntList(), // proposed target ids, to be scored in one pass
    val decisions: MutableList<Decision> = ArrayList(), // in the order of verification
    val ends: IntList = IntList(),
) {
    /** The node that the draft ends in, and the bonus is drawn below it; null where the bonus may be any token. */
    var tail: Node? = null

    /** Number of draft tokens that the decisions cover. */
    var used: Int = 0

    /** Add a proposed token; [used] draft tokens are used up with it. */
    fun emit(targetId: Int, used: Int) {
        tokens.add(targetId)
        ends.add(used)
        this.used = maxOf(this.used, used)
    }
}

/**
 * Translate draft tokens into target tokens, as far as they lead.
 *
 * @param draft draft ids.
 * @param maxTokens proposed target tokens at most. A draft token that would exceed it ends the walk. The draft alone
 *   decides this, so the output's distribution is the same.
 * @param expand also translate draft tokens that are longer than a target token.
 */
internal fun translate(draft: IntList, trie: ActiveTrie, maxTokens: Int, expand: Boolean = true): Proposal {
    val walk = Walk(trie, maxTokens, expand)
    for (i in 0 until draft.size) if (!walk.take(draft[i], i)) break
    return walk.end()
}

private class Walk(private val trie: ActiveTrie, private val maxTokens: Int, private val expand: Boolean) {
    private val proposal = Proposal()
    private var node: Node? = null
    private var excluded: Node? = null

    fun end(): Proposal = proposal.also { it.tail = node }

    /** Go on with draft token number [i]; false where the walk stops. */
    fun take(token: Int, i: Int): Boolean {
        val inside = node
        if (inside != null) {
            val child = trie.child(inside, token)
            if (child != null) {
                decide(Step.GO_ON, i, child, parent = inside)
                node = finish(child, i)
                return true
            }
            if (!leave(inside, i)) return false
        }
        return proposal.tokens.size < maxTokens && begin(token, i)
    }

    /** End the token of a node that the draft token does not lead on from; false in a dead end. */
    private fun leave(inside: Node, i: Int): Boolean {
        node = null
        val ending = trie.terminal(inside)
        if (ending == null) {
            decide(Step.DEAD_END, i, inside)
            proposal.used = i + 1
            return false
        }
        decide(Step.END, i, inside)
        proposal.emit(ending, i)
        excluded = inside
        return true
    }

    /** Begin a spelling, or an expansion; false where the draft token leads nowhere. */
    private fun begin(token: Int, i: Int): Boolean {
        val child = trie.root(token)
        if (child != null) {
            decide(Step.BEGIN, i, child, excluded = excluded)
            node = finish(child, i)
        } else {
            val longer = if (expand) trie.map.expansions.row(token) else NO_IDS
            if (longer.isEmpty() || longer.size > maxTokens - proposal.tokens.size) return false
            for (targetId in longer) {
                proposal.decisions.add(Decision(Step.EXPAND, proposal.tokens.size, i, targetId = targetId))
                proposal.emit(targetId, i + 1)
            }
        }
        excluded = null
        return true
    }

    /** The node; or null where nothing can follow in it: its token is emitted, without a decision. */
    private fun finish(child: Node, i: Int): Node? {
        proposal.used = i + 1
        val ending = trie.terminal(child)
        if (ending == null || trie.goesOn(child)) return child
        proposal.emit(ending, i + 1)
        return null
    }

    private fun decide(step: Step, i: Int, node: Node, parent: Node? = null, excluded: Node? = null) {
        proposal.decisions.add(Decision(step, proposal.tokens.size, i, node, parent, excluded))
    }
}

/**
 * Translate left to right, the longest active spelling first.
 *
 * Unlike the walk of [translate] it may return to a shorter spelling where an n-gram was not completed, so it proposes
 * more tokens. The proposal does not have the distribution of the trie walk. So it serves rules that need no such
 * distribution: greedy and match.
 *
 * The parameters are those of [translate].
 */
internal fun translateLongest(draft: IntList, trie: ActiveTrie, maxTokens: Int, expand: Boolean = true): Proposal {
    val proposal = Proposal()
    var at = 0
    while (at < draft.size && proposal.tokens.size < maxTokens) {
        val spelled = longest(draft, at, trie)
        val end = at + maxOf(1, spelled.length)
        val tokens = when {
            spelled.length > 0 -> intArrayOf(spelled.target)
            expand -> trie.map.expansions.row(draft[at])
            else -> NO_IDS
        }
        if (tokens.isEmpty() || tokens.size > maxTokens - proposal.tokens.size) break
        for (token in tokens) proposal.emit(token, end)
        at = end
    }
    return proposal
}

/** A target token and how many draft tokens spell it; 0 where none does. */
private class Spelled(val target: Int, val length: Int)

/** The longest target token that the draft spells from a place on. */
private fun longest(draft: IntList, at: Int, trie: ActiveTrie): Spelled {
    var best = Spelled(-1, 0)
    var node = trie.root(draft[at])
    while (node != null) {
        val ending = trie.terminal(node)
        if (ending != null) best = Spelled(ending, node.depth)
        val next = at + node.depth
        node = if (next == draft.size) null else trie.child(node, draft[next])
    }
    return best
}

internal val NO_IDS: IntArray = IntArray(0)
