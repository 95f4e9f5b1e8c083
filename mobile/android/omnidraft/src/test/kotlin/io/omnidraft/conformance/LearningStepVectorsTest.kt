package io.omnidraft.conformance

import io.omnidraft.bundle.layoutOf
import io.omnidraft.learning.online.AdaptationProgress
import io.omnidraft.learning.online.Guard
import io.omnidraft.learning.online.GuardOptions
import io.omnidraft.learning.online.GuardState
import io.omnidraft.learning.online.IntervalDecision
import io.omnidraft.learning.online.decide
import io.omnidraft.learning.online.rollBack
import io.omnidraft.learning.online.takeUp
import io.omnidraft.learning.step.Arrays
import io.omnidraft.learning.step.FloatValues
import io.omnidraft.learning.step.LongValues
import io.omnidraft.learning.step.TypedArray
import io.omnidraft.learning.step.initialVector
import io.omnidraft.learning.step.sitesOf
import io.omnidraft.learning.step.stateJson
import io.omnidraft.learning.step.stepBatch
import io.omnidraft.learning.step.stepScale
import io.omnidraft.learning.step.vectorOf
import io.omnidraft.models.Adapter
import io.omnidraft.disk.parse
import io.omnidraft.support.loraOf
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

private const val TOLERANCE = 1e-6

/** Runs `learner/calls`, `vector`, `guard` and `interval`: what a training step is given, and what follows. */
class LearningStepVectorsTest : VectorsRun() {
    @TestFactory
    fun calls(): List<DynamicTest> = folder("learner/calls") { vector ->
        val given = vector.input
        val responses = given["responses"].list().map { alignedOf(it.obj()) }
        val parts = responses.chunked(given["at_once"].int()).map { stepBatch(it) }
        val expected = vector.expected
        val scale = doubleArrayOf(stepScale(parts.map { it.weight }))
        assertClose(vector, "scale", doubleArrayOf(expected["scale"].num()), scale, TOLERANCE)
        val calls = expected["calls"].list()
        assertSame(vector, "calls", calls.size, parts.size)
        for (i in calls.indices) check(vector, calls[i].obj(), parts[i].inputs)
    }

    @TestFactory
    fun vector(): List<DynamicTest> = folder("learner/vector") { vector ->
        val given = vector.input
        val lora = loraOf(mapOf("sites" to given["sites"]))
        val rank = given["rank"].int()
        val scale = given["alpha"].num() / rank
        val layout = layoutOf(lora, rank)
        val tensors = vector.expected["tensors"].list().map { it.obj() }
        assertSame(vector, "names", tensors.map { it["name"] }, layout.tensors.keys.toList())
        val shapes = layout.tensors.values.map { listOf(it.rows, it.columns) }
        assertSame(vector, "shapes", tensors.map { it["shape"] }, shapes)
        val new = initialVector(layout, given["seed"].bits())
        assertClose(vector, "new vector", vector.expected["vector"].nums(), doubles(new), 1e-7)
        val full = given["full"].floats()
        val sites = sitesOf(full, layout, lora, scale)
        for ((name, pair) in vector.expected["adapter"].obj()) {
            val site = sites.getValue(name)
            assertClose(vector, "$name.lora_a", flat(pair.obj()["lora_a"]), doubles(site.a.values), TOLERANCE)
            assertClose(vector, "$name.lora_b", flat(pair.obj()["lora_b"]), doubles(site.b.values), TOLERANCE)
        }
        val adapter = Adapter("a".repeat(64), "d".repeat(64), "e".repeat(64), sites, "2026-01-02T03:04:05Z")
        val again = vectorOf(adapter, layout, lora, scale)
        assertClose(vector, "the vector again", doubles(full), doubles(again), TOLERANCE)
    }

    @TestFactory
    fun guard(): List<DynamicTest> = folder("learner/guard") { vector ->
        var guard = Guard(options(vector.input))
        val verdicts = vector.input["intervals"].list().map { answers ->
            observe(guard, answers)
            val verdict = guard.judge().name.lowercase()
            val state = guard.state()
            guard = restarted(guard)
            listOf(verdict, state.reference.size, state.current.size)
        }
        assertSame(vector, "verdicts", vector.expected["verdicts"], verdicts)
    }

    @TestFactory
    fun interval(): List<DynamicTest> = folder("learner/interval") { vector ->
        val memory = vector.input["memory"].int()
        val guard = Guard(options(vector.input))
        var progress = AdaptationProgress()
        val expected = vector.expected["intervals"].list().map { it.obj() }
        for ((i, each) in vector.input["intervals"].list().withIndex()) {
            val interval = each.obj()
            for (answer in observe(guard, interval["answers"])) {
                progress.answered += 1
                progress.pending += progress.answered
            }
            val event = ended(progress, guard, memory, interval["outcome"] as? String)
            val actual = progress.asJson().filterKeys { it in expected[i] } +
                mapOf("event" to event, "verdict" to expected[i]["verdict"])
            assertSame(vector, "interval $i", expected[i].toSortedMap(), actual.toSortedMap())
            val written = stateJson(progress.asJson()).toByteArray()
            progress = AdaptationProgress.fromJson(parse(written)) // as after a restart
        }
    }

    private fun ended(progress: AdaptationProgress, guard: Guard, memory: Int, outcome: String?): String {
        when (decide(progress, guard, memory).decision) {
            IntervalDecision.ROLL_BACK -> return "rolled back"
            IntervalDecision.COOL_DOWN -> return "rested"
            IntervalDecision.LEARN -> if (outcome == "learned") takeUp(progress)
        }
        if (outcome != "not finite") return checkNotNull(outcome) { "the vector has no outcome" }
        rollBack(progress, guard, memory)
        return "rolled back"
    }

    private fun options(given: Json): GuardOptions {
        val options = given["options"].obj()
        return GuardOptions(
            options["least"].int(), options["window"].int(), options["deviations"].num(), options["fall"].num(),
        )
    }

    private fun observe(guard: Guard, answers: Any?): List<LongArray> = answers.list().map { it.longs() }.onEach {
        guard.observe(it[0], it[1])
    }

    /** A guard that read the state of another one from JSON. */
    private fun restarted(guard: Guard): Guard {
        val text = stateJson(guard.state().asJson()).toByteArray()
        return Guard(guard.options).also { it.restore(GuardState.fromJson(parse(text))) }
    }

    /** Names, types, shapes and values of a graph's inputs; its distributions are float32. */
    private fun check(vector: Vector, expected: Json, inputs: Arrays) {
        assertSame(vector, "inputs", expected.keys.sorted(), inputs.keys.sorted())
        for ((name, values) in expected) {
            val array = inputs.getValue(name)
            assertSame(vector, "type of $name", typeOf(name), array.type)
            val flat = flat(values)
            if (flat.isEmpty()) { // no place: the width of its tables is open, at least 1
                assertSame(vector, "places of $name", 0, array.shape[0])
                check(array.shape.drop(1).all { it > 0 }) { "$name has shape ${array.form}" }
                continue
            }
            assertSame(vector, "shape of $name", shapeOf(values), array.shape)
            if (!isTable(name, array)) assertClose(vector, name, flat, doubles(array), TOLERANCE)
        }
        checkTable(vector, expected, inputs)
    }

    /** The order of the ids of a distribution is open. */
    private fun checkTable(vector: Vector, expected: Json, inputs: Arrays) {
        val wanted = expected["trie.ids"].list().zip(expected["trie.probabilities"].list())
        val ids = inputs.getValue("trie.ids") as LongValues
        val probabilities = inputs.getValue("trie.probabilities") as FloatValues
        for ((n, row) in wanted.withIndex()) {
            val width = ids.shape[1]
            val actual = (n * width until (n + 1) * width).map { ids.values[it] to probabilities.values[it].toDouble() }
            val order = actual.sortedWith(compareBy({ it.first }, { it.second }))
            val pairs = row.first.longs().zip(row.second.nums().toList())
            val want = pairs.sortedWith(compareBy({ it.first }, { it.second }))
            assertSame(vector, "trie.ids[$n]", want.map { it.first }, order.map { it.first })
            val wantP = want.map { it.second }.toDoubleArray()
            assertClose(vector, "trie[$n]", wantP, order.map { it.second }.toDoubleArray(), TOLERANCE)
        }
    }

    private fun isTable(name: String, array: TypedArray): Boolean =
        array.shape.size == 2 && (name.endsWith(".ids") || name.endsWith(".probabilities"))

    private fun typeOf(name: String): String = when (name.substringAfterLast('.')) {
        "probabilities", "other", "weights" -> "F32"
        else -> "I64"
    }

    private fun shapeOf(value: Any?): List<Int> {
        if (value !is List<*>) return emptyList()
        return listOf(value.size) + (value.firstOrNull()?.let { shapeOf(it) } ?: emptyList())
    }

    private fun flat(value: Any?): DoubleArray = when (value) {
        is List<*> -> value.flatMap { flat(it).toList() }.toDoubleArray()
        else -> doubleArrayOf(value.num())
    }

    private fun doubles(values: FloatArray): DoubleArray = DoubleArray(values.size) { values[it].toDouble() }

    private fun doubles(array: TypedArray): DoubleArray = when (array) {
        is FloatValues -> doubles(array.values)
        is LongValues -> DoubleArray(array.values.size) { array.values[it].toDouble() }
        else -> error("a graph's input of type ${array.type}")
    }
}
