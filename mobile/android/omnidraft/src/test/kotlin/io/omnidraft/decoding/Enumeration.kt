package io.omnidraft.decoding

/*
 * Enumerates every outcome of code that asks a RandomSource, with its exact probability, as
 * tests/support/enumerate_distribution.py does.
 */

private class Answer(val value: Int, val probability: Double)

/** A random source that replays given answers, then takes the first possible one and notes the others. */
internal class Script(private val answers: List<Int>) : RandomSource {
    /** How many answers each question has. */
    val asked: MutableList<Int> = ArrayList()

    var probability: Double = 1.0
        private set

    private fun take(all: List<Answer>): Int {
        val possible = all.filter { it.probability > 0.0 }
        val taken = possible[answers.getOrElse(asked.size) { 0 }]
        asked.add(possible.size)
        probability *= taken.probability
        return taken.value
    }

    override fun bernoulli(probability: Double): Boolean {
        val chance = probability.coerceIn(0.0, 1.0)
        return take(listOf(Answer(1, chance), Answer(0, 1.0 - chance))) == 1
    }

    override fun categorical(weights: DoubleArray, count: Int): Int {
        val sum = (0 until count).sumOf { weights[it] }
        return take(List(count) { Answer(it, weights[it] / sum) })
    }

    override fun sample(distribution: Distribution, among: IntArray?): Int {
        val ids = among ?: IntArray(distribution.size) { it }
        val sum = ids.sumOf { distribution.probability(it) }
        return take(ids.map { Answer(it, distribution.probability(it) / sum) })
    }

    /** All ways to get no token are one answer (-1), which keeps the enumeration short. */
    override fun rejectionSample(distribution: Distribution, share: (Int) -> Double): Int? {
        val ids = 0 until distribution.size
        val sum = ids.sumOf { distribution.probability(it) }
        val weights = ids.map { distribution.probability(it) / sum }
        val kept = ids.map { if (weights[it] > 0.0) share(it).coerceIn(0.0, 1.0) else 0.0 }
        val nothing = ids.sumOf { weights[it] * (1.0 - kept[it]) }
        val token = take(listOf(Answer(-1, nothing)) + ids.map { Answer(it, weights[it] * kept[it]) })
        return if (token < 0) null else token
    }
}

/** The distribution of what [run] gives, over every path of random answers through it. */
internal fun <T> outcomes(run: (RandomSource) -> T): Map<T, Double> {
    val distribution = HashMap<T, Double>()
    var answers = listOf<Int>()
    while (true) {
        val script = Script(answers)
        distribution.merge(run(script), script.probability, Double::plus)
        val path = MutableList(script.asked.size) { answers.getOrElse(it) { 0 } }
        while (path.isNotEmpty() && path.last() + 1 >= script.asked[path.size - 1]) path.removeAt(path.size - 1)
        if (path.isEmpty()) return distribution
        path[path.size - 1]++
        answers = path
    }
}
