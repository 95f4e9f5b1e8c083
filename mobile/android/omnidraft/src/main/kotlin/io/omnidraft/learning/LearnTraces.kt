package io.omnidraft.learning

import io.omnidraft.SettingException
import io.omnidraft.bundle.Bundle
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.newSha256
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.positions.Aligner
import io.omnidraft.learning.positions.TraceAligner
import io.omnidraft.learning.positions.fromTraces
import io.omnidraft.learning.positions.fullTrie
import io.omnidraft.learning.step.DECAYING
import io.omnidraft.learning.step.Learned
import io.omnidraft.learning.step.OrtLearner
import io.omnidraft.learning.step.StateFormat
import io.omnidraft.learning.step.StepBudget
import io.omnidraft.learning.step.StepOptions
import io.omnidraft.learning.step.checkSchedule
import io.omnidraft.learning.step.rateAt
import io.omnidraft.models.Adapter
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.readTraces
import io.omnidraft.vocab.VocabMap
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.math.min

/* Learn an adapter from recorded generations, in a seeded order, resumable from a file. */

/** The checkpoints of learning from traces. */
internal val CHECKPOINT = StateFormat("omnidraft.learner_state", "1", "learning")

/**
 * Options of learning from traces.
 *
 * @property step of the learner; its learning rate is the highest of the schedule.
 * @property steps in total; one pass when null.
 * @property batchSize responses in a step.
 * @property schedule see [rateAt].
 * @property maxLength draft tokens of a response with its prompt; the drafter's context when null.
 * @property targetAdapter digest of the target's adapter; null for no adapter.
 * @throws SettingException a value outside its range.
 */
internal class LearnOptions(
    val step: StepOptions = StepOptions(),
    val steps: Long? = null,
    val batchSize: Int = 8,
    val schedule: String = DECAYING,
    val maxLength: Int? = null,
    val targetAdapter: String? = null,
) {
    init {
        if (steps != null && steps < 1) {
            throw SettingException("steps $steps is less than 1", "give 1 or more, or leave it out for one pass", "steps")
        }
        if (batchSize < 1) throw SettingException("batch_size $batchSize is less than 1", "8 is usual", "batch_size")
        if (maxLength != null && maxLength < 2) {
            throw SettingException(
                "max_length $maxLength leaves no room",
                "give 2 or more, or leave it out for all that the drafter's context holds",
                "max_length",
            )
        }
        checkSchedule(schedule)
    }
}

/**
 * The result of learning.
 *
 * @property adapter for a session.
 * @property responses that were learned from.
 * @property steps in total.
 * @property done steps of this run.
 * @property isFinished whether all steps were done; else the budget ended the run.
 * @property skipped of all steps, those that were not finite and changed nothing.
 * @property losses of the steps of this run.
 */
internal class LearnedFromTraces(
    val adapter: Adapter,
    val responses: Int,
    val steps: Long,
    val done: Int,
    val isFinished: Boolean,
    val skipped: Long,
    val losses: List<Double>,
)

/**
 * The responses in traces, all in memory; a trace on a device is bounded (spec/12-trace.md).
 *
 * @throws io.omnidraft.TraceFileException a file is not a trace, is damaged, or is of another pair.
 * @throws SettingException a record is of the target with another adapter, or there is nothing to learn from.
 */
internal fun responsesOf(
    traces: List<File>,
    bundle: Bundle,
    vocabMap: VocabMap,
    options: LearnOptions,
): List<Aligned> {
    val longest = bundle.drafter.kv.maxLength
    if (options.maxLength != null && options.maxLength > longest) {
        throw SettingException(
            "max_length ${options.maxLength} is more than the $longest that the drafter's context holds",
            "give $longest or less",
            "max_length",
        )
    }
    val aligner = Aligner(fullTrie(vocabMap), options.maxLength ?: longest)
    val start = bundle.drafter.bosId?.let { intArrayOf(it) } ?: IntArray(0)
    val ofTraces = TraceAligner(aligner, start, options.targetAdapter)
    val responses = fromTraces(readTraces(traces, Vocabularies.of(vocabMap)), ofTraces).toList()
    if (responses.isEmpty()) throw SettingException("the traces hold nothing to learn from", "record some text first")
    return responses
}

/**
 * Where a run keeps the state of its learner.
 *
 * @property file read if it exists, written after every [every] steps, at the end, and where the budget ends the run.
 * @property every steps between two writes.
 */
internal class Checkpoint(val file: File, val every: Int = 20)

/**
 * Learn, and continue from the checkpoint with the steps that would have followed it.
 *
 * @param learner new.
 * @param responses at least one.
 * @param options of the learner.
 * @param checkpoint null for none.
 * @param budget asked between two calls of the graph; a step that it ends changes nothing.
 * @param progress called after each step with its result and the number of all steps.
 * @throws SettingException the checkpoint is of other settings or responses, or cannot be written.
 */
internal fun learn(
    learner: OrtLearner,
    responses: List<Aligned>,
    options: LearnOptions,
    checkpoint: Checkpoint? = null,
    budget: StepBudget = StepBudget.UNBOUNDED,
    progress: (Learned, Long) -> Unit = { _, _ -> },
): LearnedFromTraces {
    val each = (responses.size + options.batchSize - 1L) / options.batchSize
    val total = options.steps ?: each
    val settings = settingsOf(learner, responses, options, total)
    if (checkpoint != null && checkpoint.file.exists()) restore(learner, checkpoint.file, settings)
    val losses = ArrayList<Double>()
    var written = learner.steps
    fun write() {
        if (checkpoint == null || learner.steps == written) return
        CHECKPOINT.write(checkpoint.file, learner.state(), mapOf("settings" to settings))
        written = learner.steps
    }
    while (learner.steps < total && budget.goesOn()) {
        learner.rate = rateAt(options.schedule, options.step.learningRate, learner.steps, total)
        val batch = batch(learner.steps, responses.size, options).map { responses[it] }
        val step = learner.learn(batch, budget) ?: break
        losses.add(step.loss)
        progress(step, total)
        if (checkpoint != null && step.step % checkpoint.every == 0L) write()
    }
    write()
    val isFinished = learner.steps >= total
    return LearnedFromTraces(
        learner.adapter(), responses.size, learner.steps, losses.size, isFinished, learner.skipped, losses,
    )
}

private fun restore(learner: OrtLearner, file: File, settings: Map<String, Any?>) {
    val saved = CHECKPOINT.read(file)
    CHECKPOINT.checkSame(file, saved.metadata["settings"], settings)
    learner.restore(saved.arrays)
}

/** What a checkpoint records, so that no run goes on from another one's state. */
private fun settingsOf(
    learner: OrtLearner,
    responses: List<Aligned>,
    options: LearnOptions,
    total: Long,
): Map<String, Any?> {
    val step = options.step
    return mapOf(
        "step" to mapOf(
            "objective" to step.objective, "learning_rate" to step.learningRate, "weight_decay" to step.weightDecay,
            "clip_norm" to step.clipNorm, "lora_alpha" to step.loraAlpha, "seed" to step.seed,
            "at_once" to step.atOnce.toLong(), "threads" to step.threads.toLong(),
        ),
        "steps" to total,
        "batch_size" to options.batchSize.toLong(),
        "schedule" to options.schedule,
        "max_length" to options.maxLength?.toLong(),
        "target_adapter" to options.targetAdapter,
        "base" to learner.adapter().base,
        "responses" to digestOf(responses),
    )
}

/** Indices of the responses of a step. Each pass takes all responses, in its own order. */
internal fun batch(step: Long, count: Int, options: LearnOptions): List<Int> {
    val each = (count + options.batchSize - 1) / options.batchSize
    val random = SplitMix64(SplitMix64(options.step.seed).nextU64() xor (step / each))
    val order = MutableList(count) { it }
    for (last in count - 1 downTo 1) { // Fisher and Yates
        val chosen = min((random.uniform() * (last + 1)).toInt(), last)
        order[last] = order.set(chosen, order[last])
    }
    val start = (step % each).toInt() * options.batchSize
    return order.subList(start, min(start + options.batchSize, count))
}

/** SHA-256 over the draft tokens of all responses, with the length of each prompt. */
private fun digestOf(responses: List<Aligned>): String {
    val digest = newSha256()
    for (response in responses) {
        digest.update("${response.promptLength} ${response.draftIds.size}\n".toByteArray(Charsets.US_ASCII))
        val ids = ByteBuffer.allocate(4 * response.draftIds.size).order(ByteOrder.LITTLE_ENDIAN)
        for (id in response.draftIds) ids.putInt(id)
        digest.update(ids.array())
    }
    return hexOf(digest.digest())
}
