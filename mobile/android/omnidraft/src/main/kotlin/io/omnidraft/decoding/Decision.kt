package io.omnidraft.decoding

import io.omnidraft.vocab.ActiveTrie
import io.omnidraft.vocab.Children
import io.omnidraft.vocab.Node

/*
 * P and Q of one decision: what the target would decide, and what the drafter offered (spec/04-speculation.md, sections
 * 5 and 6).
 */

/** Replaces a divisor of zero, so that ratios stay finite. */
internal const val TINY: Double = 1e-300

private const val ROUNDING = 1e-4 // the sum of many float32 probabilities is closer to 1 than this

internal class Chances(val p: Double, val q: Double)

/** P and Q of all options, the first [count] numbers of each; Q sums to less than 1 where nothing may be proposed. */
internal class Options(val p: DoubleArray, val q: DoubleArray, val count: Int = p.size) {
    /** The same numbers, with Q in an array of its own. */
    fun fresh(): Options = Options(p, q.copyOf(), count)
}

internal interface DecisionProbs {
    /** P(a) / Q(a) of the proposed option a; 0 where nothing is proposed. */
    val ratio: Double

    /** The target's distribution, of a decision between many options, for which rejection sampling pays; else null. */
    val wide: Distribution?

    /** P and Q of the option that a target token belongs to; asked only where [wide] is set. */
    fun ofToken(token: Int): Chances

    /** P and Q of all options, until the next call for any decision of the round; the caller may overwrite Q. */
    fun options(): Options

    /** A target token of an option, drawn from the target's distribution. */
    fun emit(option: Int, random: RandomSource): Int
}

/** What the decisions of a round share, so that none of them makes arrays of the size of a vocabulary. */
internal class OptionBuffers(private val trie: ActiveTrie) {
    private val rootMask = FloatArray(trie.map.draftSize)
    private val spelledIds = IdSet(trie.map.targetSize)
    private var hasMask = false
    private var hasSpelled = false
    private val p by lazy { DoubleArray(rootMask.size + 1) }
    private val q by lazy { DoubleArray(rootMask.size + 1) }

    /** Begin a round: the trie may have changed. */
    fun refresh() {
        hasMask = false
        hasSpelled = false
    }

    /** One for each draft token that begins a spelling, else zero. */
    fun mask(): FloatArray {
        if (!hasMask) for (i in rootMask.indices) rootMask[i] = if (trie.rootMask[i]) 1f else 0f
        hasMask = true
        return rootMask
    }

    /** Target tokens with an active spelling. */
    fun spelled(): IdSet {
        if (!hasSpelled) {
            spelledIds.clear()
            trie.forEachSpelled { spelledIds.add(it) }
        }
        hasSpelled = true
        return spelledIds
    }

    /** Room for one number of each draft token, and one more. */
    fun options(): Options = Options(p, q)
}

internal fun decisionProbs(
    decision: Decision,
    q: Distribution, // the drafter's distribution at the decision's draft token
    p: Distribution, // the target's distribution at the decision's row
    trie: ActiveTrie, // the active trie that the draft was translated with, unchanged since
    buffers: OptionBuffers = OptionBuffers(trie),
): DecisionProbs = when (decision.step) {
    Step.EXPAND -> Expansion(decision.targetId, p)
    Step.BEGIN -> Beginning(decision, q, p, trie, buffers)
    else -> Inside(decision, q, p, trie)
}

/** A decision between a few options, which are listed at once. */
private abstract class Few : DecisionProbs {
    override val wide: Distribution? get() = null

    override fun ofToken(token: Int): Chances = error("rejection sampling is for decisions between many options")
}

private fun ratio(options: Options, proposed: Int?): Double =
    if (proposed == null) 0.0 else options.p[proposed] / maxOf(options.q[proposed], TINY)

/** A target token proposed with certainty; all other tokens make one option. */
private class Expansion(private val proposed: Int, private val p: Distribution) : Few() {
    private val options =
        Options(doubleArrayOf(p.probability(proposed), p.massOutside(proposed)), doubleArrayOf(1.0, 0.0))

    override val ratio = ratio(options, 0)

    override fun options(): Options = options.fresh()

    override fun emit(option: Int, random: RandomSource): Int =
        if (option == 0) proposed else random.sample(p.without(proposed))
}

/**
 * A draft token that begins a spelling: q renormalised over the root's children minus E.
 *
 * There is one option more than draft tokens: the target tokens without an active spelling. It is never proposed.
 */
private class Beginning(
    decision: Decision,
    private val q: Distribution,
    private val p: Distribution,
    private val trie: ActiveTrie,
    private val buffers: OptionBuffers,
) : DecisionProbs {
    private val excluded: IntArray = decision.excluded?.let { trie.children(it).tokens } ?: NO_IDS
    private val possible = maxOf(withMask { q.massUnder(it) }, TINY)

    override val wide: Distribution get() = p

    override val ratio: Double = decision.node.let { node ->
        checkNotNull(node) { "a decision to begin has a node" }
        p.mass(trie.targets(node)) / maxOf(qOption(trie.draftToken(node)), TINY)
    }

    override fun ofToken(token: Int): Chances {
        val leaf = trie.map.leafOf[token]
        // No active spelling: then Q is 0 and the value of P does not matter.
        if (leaf < 0 || !trie.active[leaf]) return Chances(1.0, 0.0)
        val first = trie.map.leafFirsts[leaf]
        return Chances(p.mass(trie.targets(rootOf(first))), qOption(first))
    }

    override fun options(): Options {
        val options = buffers.options()
        rootMasses(trie, p, buffers, options.p)
        withMask { mask ->
            for (i in mask.indices) options.q[i] = if (mask[i] > 0f) q.probability(i) / possible else 0.0
        }
        options.q[options.count - 1] = 0.0
        return options
    }

    override fun emit(option: Int, random: RandomSource): Int =
        if (option == trie.map.draftSize) random.sample(p.without(buffers.spelled()))
        else random.sample(p, trie.targets(rootOf(option)))

    private fun qOption(token: Int): Double =
        if (!trie.rootMask[token] || token in excluded) 0.0 else q.probability(token) / possible

    private fun rootOf(token: Int): Node = checkNotNull(trie.root(token)) { "no active spelling begins with $token" }

    /** Use the mask of the root without what is excluded. */
    private inline fun <T> withMask(use: (FloatArray) -> T): T {
        val mask = buffers.mask()
        for (token in excluded) mask[token] = 0f
        val result = use(mask)
        for (token in excluded) mask[token] = if (trie.rootMask[token]) 1f else 0f
        return result
    }
}

/** A draft token inside a node: it continues to a child, ends the target token, or fits neither. */
private class Inside(decision: Decision, q: Distribution, private val p: Distribution, trie: ActiveTrie) : Few() {
    private val node = checkNotNull(if (decision.step == Step.GO_ON) decision.parent else decision.node)
    private val ending: Int? = trie.terminal(node)
    private val children: Children = trie.children(node)
    private val options = inside(children, ending, q, p)

    override val ratio = ratio(options, proposed(decision, children, trie))

    override fun options(): Options = options.fresh()

    override fun emit(option: Int, random: RandomSource): Int {
        if (ending != null && option == options.count - 1) return ending
        val below = children.targets.filterIndexed { i, _ -> children.owner[i] == option }
        return random.sample(p, below.toIntArray())
    }
}

private fun proposed(decision: Decision, children: Children, trie: ActiveTrie): Int? = when (decision.step) {
    Step.END -> children.tokens.size
    Step.GO_ON -> children.tokens.binarySearch(trie.draftToken(checkNotNull(decision.node)))
    else -> null
}

/** P and Q of the children of a node, and of its end where a token ends there. */
private fun inside(children: Children, ending: Int?, q: Distribution, p: Distribution): Options {
    val count = children.tokens.size + if (ending == null) 0 else 1
    val options = Options(DoubleArray(count), DoubleArray(count))
    for (i in children.targets.indices) options.p[children.owner[i]] += p.probability(children.targets[i])
    for (i in children.tokens.indices) options.q[i] = q.probability(children.tokens[i])
    if (ending != null) { // END is one more option, proposed whenever no child is
        options.p[count - 1] = p.probability(ending)
        options.q[count - 1] = maxOf(0.0, 1.0 - options.q.sum())
    }
    val sum = options.p.sum()
    for (i in options.p.indices) options.p[i] /= sum
    return options
}

/**
 * The target's mass below each child of the trie's root, one number for each draft token and one more: the mass of the
 * target tokens without an active spelling.
 */
internal fun rootMasses(
    trie: ActiveTrie,
    distribution: Distribution,
    buffers: OptionBuffers = OptionBuffers(trie),
    masses: DoubleArray = DoubleArray(trie.map.draftSize + 1), // takes the numbers
): DoubleArray {
    masses.fill(0.0)
    for (i in trie.directDrafts.indices) {
        masses[trie.directDrafts[i]] = distribution.probability(trie.directTargets[i])
    }
    for (i in 0 until trie.size) masses[trie.gramFirsts[i]] += distribution.probability(trie.gramTargets[i])
    if (trie.directDrafts.size + trie.size < trie.map.targetSize) {
        val rest = 1.0 - masses.sum()
        // A rest that may be rounding alone would let a token of probability 0 be drawn.
        masses[masses.size - 1] = if (rest > ROUNDING) rest else distribution.massOutside(buffers.spelled())
    }
    return masses
}

/**
 * Replace a decision by a token drawn from max(0, reach P - Q), or skip it.
 *
 * With S the sum of that residual, the decision is skipped with probability (1 - reach) / (S + 1 - reach) (the step
 * back of block verification, Sun et al., ICLR 2025). With reach 1, as in token-level verification, it is never
 * skipped.
 *
 * Where there are many options, one attempt of rejection sampling comes first: skip with 1 - reach, else draw a token
 * of the target's distribution and keep it with its share of the residual. An attempt that gives neither leaves the
 * distribution as it was to the full computation. Most attempts succeed, which saves a pass over both vocabularies.
 *
 * @return the token, or null where the decision is skipped.
 */
internal fun resampleOrSkip(probs: DecisionProbs, reach: Double, random: RandomSource): Int? {
    val wide = probs.wide
    if (wide != null) {
        if (random.bernoulli(1.0 - reach)) return null
        val token = random.rejectionSample(wide) { share(reach, probs.ofToken(it)) }
        if (token != null) return token
    }
    val options = probs.options()
    val residual = options.q // takes the place of Q
    var excess = 0.0
    for (i in 0 until options.count) {
        residual[i] = maxOf(0.0, reach * options.p[i] - options.q[i])
        excess += residual[i]
    }
    val isEqual = excess == 0.0 && reach == 1.0 // P = Q up to rounding
    if (isEqual) excess = 1.0
    if (!random.bernoulli(excess / (excess + (1.0 - reach)))) return null
    return probs.emit(random.categorical(if (isEqual) options.p else residual, options.count), random)
}

/** The part of an option's probability that the residual keeps. */
private fun share(reach: Double, chances: Chances): Double = 1.0 - chances.q / maxOf(reach * chances.p, TINY)
