package io.omnidraft.conformance

import io.omnidraft.decoding.DraftLength
import io.omnidraft.decoding.Drafter
import io.omnidraft.decoding.FixedLength
import io.omnidraft.decoding.HasHead
import io.omnidraft.decoding.Logits
import io.omnidraft.decoding.Model
import io.omnidraft.support.GivenUniforms
import io.omnidraft.vocab.IntList
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** A drafter whose logits and head output depend on the last token only. */
private class TableDrafter(private val table: List<FloatArray>, private val head: DoubleArray) : Model, HasHead {
    private var context = IntArray(0)

    /** Passes so far. */
    var reads = 0
        private set
    override var acceptance = 1.0
        private set
    override val vocabSize: Int get() = table.size
    override val maxLength: Int get() = 64
    override val length: Int get() = context.size

    override fun score(tokens: IntArray, numLogits: Int?): Logits {
        reads++
        context += tokens
        acceptance = head[tokens.last()]
        val rows = tokens.takeLast(numLogits ?: tokens.size).map { table[it] }
        return Logits.of(rows.fold(FloatArray(0)) { all, row -> all + row }, table.size)
    }

    override fun rewind(length: Int) {
        context = context.copyOf(length)
    }
}

/** A fixed length that records the probabilities it is asked with. */
private class RecordingLength(private val inner: DraftLength) : DraftLength by inner {
    val asked = ArrayList<Double>()

    override fun more(drawn: Int, survival: Double): Int {
        asked.add(survival)
        return inner.more(drawn, survival)
    }
}

/** Runs `learner/stop`: a head that ends drafts. */
class LearningStopVectorsTest : VectorsRun() {
    @TestFactory
    fun stop(): List<DynamicTest> = folder("learner/stop") { vector ->
        val given = vector.input
        val model = TableDrafter(given["table"].list().map { it.floats() }, given["acceptance"].nums())
        val length = RecordingLength(FixedLength(given["count"].int(), given["threshold"].num()))
        val random = GivenUniforms(given["uniforms"].nums())
        val context = IntList().also { it.add(given["last"].int()) }
        val draft = Drafter(model).propose(
            context, given["count"].int(), length, given["temperature"].num(), given["banned"].ints(), random,
        )
        random.finish()
        assertSame(vector, "tokens", vector.expected["tokens"], draft.tokens.toArray())
        assertSame(vector, "passes", vector.expected["reads"], model.reads)
        assertClose(vector, "asked", vector.expected["asked"].nums(), length.asked.toDoubleArray(), 1e-6)
    }
}
