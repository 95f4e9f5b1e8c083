package io.omnidraft.learning.step

import io.omnidraft.SettingException
import io.omnidraft.bundle.Bundle
import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.StepEntry
import io.omnidraft.bundle.StepLayout
import io.omnidraft.bundle.checkUnchanged
import io.omnidraft.bundle.checkedStep
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.models.Adapter
import io.omnidraft.models.Role
import io.omnidraft.models.bytesSession
import io.omnidraft.models.fit
import io.omnidraft.models.placeOf
import io.omnidraft.vocab.VocabMap

/* A learner without a training package: onnxruntime runs the training step of the bundle (spec/14-train-step.md). */

private const val STEPS = "counts"

private const val CLIP_NORM = 1.0 // largest norm of the gradient
private const val ALPHA = 32.0 // the scale of the adapter is alpha / rank
private const val SEED = 0L // of the initial LoRA tensors

internal class StepOptions(
    val learningRate: Double = 1e-4, // of AdamW with betas (0.9, 0.999)
    val weightDecay: Double = 0.01,
    val atOnce: Int = 1, // responses in one call of the graph; a larger value takes more memory and slightly less time
)

/** A drafter's LoRA tensors in training; see [Learner]. Closing it frees the graph. */
internal class OrtLearner(
    private val bundle: Bundle, // exported with a training step
    private val vocabMap: VocabMap,
    private val options: StepOptions = StepOptions(),
    adapter: Adapter? = null, // to begin with, packed by a learner; new tensors from the seed when null
    private val now: () -> String, // gives the creation time of adapters
) : Learner, AutoCloseable {
    private val entry: StepEntry = stepOf(bundle)
    private val lora: LoraSites = bundle.drafter.lora ?: throw noStep(bundle)
    private val base: String = bundle.drafter.fingerprint ?: throw noStep(bundle)
    private val scale = ALPHA / entry.rank
    private val drafter = runOf(entry.graph, initial(adapter))

    override var rate: Double = options.learningRate

    var steps: Long = 0
        private set

    /** Steps that were not finite and did not change the drafter. */
    var skipped: Long = 0
        private set

    override fun learn(responses: List<Aligned>, budget: StepBudget): Learned? {
        check(responses)
        val groups = responses.chunked(options.atOnce)
        val settings = settings(stepScale(groups.map { stepBatch(it).weight }))
        val outcome = drafter.run(groups.map { group -> { stepBatch(group).inputs } }, settings, budget) ?: return null
        steps += 1
        if (!outcome.applied) skipped += 1
        val loss = outcome.values.getValue("next_loss").toDouble()
        return Learned(steps, loss, outcome.values.getValue("norm").toDouble(), !outcome.applied)
    }

    override fun adapter(): Adapter {
        val tensors = sitesOf(drafter.parameters, entry.layout, lora, scale)
        return Adapter(base, vocabMap.draftFingerprint, vocabMap.targetFingerprint, tensors, now())
    }

    override fun state(): Arrays = drafter.state() + (STEPS to LongValues(longArrayOf(steps, skipped)))

    override fun restore(state: Arrays) {
        drafter.check(state)
        val counts = (state[STEPS] as? LongValues)?.values
        if (counts == null || counts.size != 2) {
            throw SettingException("the state of a learner has no counts", "give the file that a learner wrote")
        }
        drafter.restore(state)
        steps = counts[0]
        skipped = counts[1]
    }

    override fun close() = drafter.close()

    private fun initial(adapter: Adapter?): FloatArray {
        if (adapter == null) return initialVector(entry.layout, SEED)
        fit(adapter, placeOf(bundle, vocabMap), Role.DRAFTER)
        return vectorOf(adapter, entry.layout, lora, scale)
    }

    private fun runOf(graph: String, begin: FloatArray): StepRun {
        val content = checkedStep(bundle, graph, entry.folder)
        val session = bytesSession(content, bundle.file(graph), bundle.file(entry.folder))
        try {
            checkUnchanged(bundle.places, bundle.stamps) // the weights were read by their name
            return StepRun(session, begin, graph)
        } catch (error: Throwable) {
            session.close()
            throw error
        }
    }

    private fun settings(lossScale: Double): Arrays = mapOf(
        "scale" to oneFloat(lossScale),
        "learning_rate" to oneFloat(rate),
        "weight_decay" to oneFloat(options.weightDecay),
        "clip_norm" to oneFloat(CLIP_NORM),
        "lora_scale" to oneFloat(scale),
    )

    private fun check(responses: List<Aligned>) {
        if (responses.isEmpty()) throw SettingException("a step was given no responses", "give at least one")
        val longest = bundle.drafter.kv.maxLength
        for (response in responses) {
            checkPair(response.vocabMap)
            if (response.draftIds.size > longest) {
                throw SettingException(
                    "a response has ${response.draftIds.size} draft tokens and the drafter's context holds $longest",
                    "align with max_length $longest",
                )
            }
        }
    }

    private fun checkPair(theirs: VocabMap) {
        val ours = vocabMap
        val isSame = theirs.draftFingerprint == ours.draftFingerprint &&
            theirs.targetFingerprint == ours.targetFingerprint
        if (isSame) return
        throw SettingException(
            "a response is of the tokenizers ${theirs.draftFingerprint.take(12)} and " +
                "${theirs.targetFingerprint.take(12)}, and the bundle has ${ours.draftFingerprint.take(12)} and " +
                ours.targetFingerprint.take(12),
            "align it with the bundle's vocabulary map",
        )
    }
}

private fun stepOf(bundle: Bundle): StepEntry {
    val entry = bundle.drafter.train ?: throw noStep(bundle)
    checkSize(bundle, entry.layout)
    return entry
}

/** Refuse a vector that no phone's memory holds; the manifest is checked, but for this size. */
private fun checkSize(bundle: Bundle, layout: StepLayout) {
    if (layout.size > MOST_PARAMETERS) {
        throw SettingException(
            "the training step of ${bundle.path.name} has ${layout.size} parameters, more than $MOST_PARAMETERS",
            "export it again with a lower train_rank in --config",
        )
    }
}

private fun noStep(bundle: Bundle) = SettingException(
    "${bundle.path.name} holds no training step",
    "export it again with --train-step",
)
