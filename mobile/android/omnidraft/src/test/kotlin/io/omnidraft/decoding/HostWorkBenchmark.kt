package io.omnidraft.decoding

import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.VocabMap
import io.omnidraft.vocab.loadVocabMap
import java.io.File
import java.lang.management.ManagementFactory
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import kotlin.math.PI
import kotlin.math.cos
import kotlin.math.ln1p
import kotlin.math.sqrt

/*
 * The cost of a round outside the models: translate, verify, learn and rewind, at real vocabulary sizes.
 *
 * The counterpart of benchmarks/host_overhead.py: the same rows, the same vocabulary map (its argument, which
 * `python -m benchmarks.host_overhead --map FILE` writes), the same seed, so the same tokens. It prints medians of the
 * milliseconds of a round, and the bytes that a round allocates. The column `host CPU` is CPU time of the thread, which
 * other processes lengthen less.
 */

private const val DRAFTED = 5
private const val ROWS = 16
private const val WARM_UP = 600
private const val ROUNDS = 400

/** A model of random logits that costs nothing; it favours a share of the tokens that it verifies. */
private class RandomRows(override val vocabSize: Int, agreement: Double, spread: Double) : Model {
    override val maxLength: Int = 1 shl 30
    override var length: Int = 0
        private set

    private val pool: FloatBuffer =
        ByteBuffer.allocateDirect(4 * ROWS * vocabSize).order(ByteOrder.nativeOrder()).asFloatBuffer()
    private val likes = BooleanArray(1 shl 16)
    private val raised = ArrayList<Pair<Int, Float>>()
    private var calls = 0

    init {
        val source = SplitMix64(0)
        for (i in 0 until ROWS * vocabSize) {
            val radius = sqrt(-2.0 * ln1p(-source.uniform()))
            pool.put(i, (radius * cos(2.0 * PI * source.uniform()) * spread).toFloat())
        }
        val liked = SplitMix64(1)
        for (i in likes.indices) likes[i] = liked.uniform() < agreement
    }

    override fun score(tokens: IntArray, numLogits: Int?): Logits {
        for ((at, value) in raised) pool.put(at, value)
        raised.clear()
        calls++
        val start = if (tokens.size < ROWS) calls % (ROWS - tokens.size) else 0
        val rows = numLogits ?: tokens.size
        for (i in 0 until minOf(rows, tokens.size - 1)) {
            if (!likes[(calls * 8 + i) % likes.size]) continue
            val at = (start + i) * vocabSize + tokens[i + 1]
            raised.add(at to pool.get(at))
            pool.put(at, 30f)
        }
        length += tokens.size
        pool.position(start * vocabSize)
        val part = pool.slice()
        pool.position(0)
        return Logits(part, rows, vocabSize)
    }

    override fun rewind(length: Int) {
        this.length = length
    }
}

/** Nanoseconds of the parts of a round. */
private class Parts {
    var draft = 0L
    var translate = 0L
    var verify = 0L
    var learn = 0L
    var cpu = 0L // of all but the draft

    fun clear() {
        cpu = 0L
        draft = 0L
        translate = 0L
        verify = 0L
        learn = 0L
    }
}

private class Timed(private val proposer: TrieProposer, private val parts: Parts) : Proposer by proposer {
    override fun propose(plan: Plan, copy: Copy, context: IntList, random: RandomSource): Draft {
        val started = System.nanoTime()
        return proposer.propose(plan, copy, context, random).also { parts.draft += System.nanoTime() - started }
    }

    override fun translate(draft: Draft, room: Int): Proposal =
        timed({ parts.translate += it }) { proposer.translate(draft, room) }

    override fun verify(draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource): Verdict =
        timed({ parts.verify += it }) { proposer.verify(draft, proposal, probs, random) }

    override fun learn(outcome: Outcome, context: IntList): Int =
        timed({ parts.learn += it }) { proposer.learn(outcome, context) }

    private inline fun <T> timed(add: (Long) -> Unit, work: () -> T): T {
        val cpu = THREADS.currentThreadCpuTime
        val started = System.nanoTime()
        return work().also {
            add(System.nanoTime() - started)
            parts.cpu += THREADS.currentThreadCpuTime - cpu
        }
    }
}

private val THREADS = ManagementFactory.getThreadMXBean() as com.sun.management.ThreadMXBean

private fun proposerOf(drafter: Drafter, cache: NgramCache, temperature: Double): TrieProposer =
    if (temperature == 0.0) MatchProposer(drafter, cache) else TrieProposer(drafter, cache, temperature)

/** Medians of a round: milliseconds of its parts and of all of them, bytes allocated, tokens emitted. */
private fun measure(map: VocabMap, agreement: Double, temperature: Double, isPrefilled: Boolean): String {
    val cache = NgramCache(map)
    if (isPrefilled) cache.prefill()
    val drafter = Drafter(RandomRows(map.draftSize, 0.0, 5.0))
    val target = RandomRows(map.targetSize, agreement, 2.0)
    val parts = Parts()
    val proposer = Timed(proposerOf(drafter, cache, temperature), parts)
    val text = DecoderState()
    text.restart(intArrayOf(1), intArrayOf(1), 1 shl 30, cutAtEos(emptySet()))
    val sampling = SamplingConfig(temperature)
    val loop = speculate(target, proposer, text, sampling, FixedLength(DRAFTED), SplitMix64(0))
    val rounds = ArrayList<LongArray>()
    for (i in 0 until WARM_UP + ROUNDS) {
        parts.clear()
        val before = THREADS.getThreadAllocatedBytes(Thread.currentThread().id)
        val round = loop.next()
        val bytes = THREADS.getThreadAllocatedBytes(Thread.currentThread().id) - before
        if (i < WARM_UP) continue
        val host = parts.translate + parts.verify + parts.learn
        val times = longArrayOf(parts.translate, parts.verify, parts.learn, host, parts.draft, parts.cpu)
        rounds.add(times + longArrayOf(bytes, round.emitted.size.toLong()))
    }
    val medians = (0 until 7).map { column -> rounds.map { it[column] }.sorted()[rounds.size / 2] }
    val hosts = rounds.map { it[3] }.sorted()
    val tenths = listOf(hosts[rounds.size / 10], hosts[rounds.size * 9 / 10])
    val emitted = rounds.sumOf { it[7] }.toDouble() / rounds.size
    val times = (medians.take(6) + tenths).joinToString("") { "%12.3f".format(it / 1e6) }
    return times + "%12d%12.2f".format(medians[6], emitted)
}

/** Prints the medians; the argument is the file of a vocabulary map. */
fun main(arguments: Array<String>) {
    val map = loadVocabMap(File(arguments.single()))
    println("milliseconds a round (medians), $DRAFTED draft tokens, target vocabulary ${map.targetSize}")
    val times = listOf("translate", "verify", "learn", "host", "draft", "host CPU", "host p10", "host p90")
    val columns = times + listOf("bytes", "emitted")
    println(" ".repeat(40) + columns.joinToString("") { it.padStart(12) })
    for ((rows, agreement) in listOf("random" to 0.0, "agreeing" to 0.7)) {
        for (temperature in listOf(0.0, 1.0)) {
            for (isPrefilled in listOf(false, true)) {
                val name = "$rows rows, T = $temperature, ${if (isPrefilled) "full" else "cold"} cache"
                println(name.padEnd(40) + measure(map, agreement, temperature, isPrefilled))
            }
        }
    }
}
