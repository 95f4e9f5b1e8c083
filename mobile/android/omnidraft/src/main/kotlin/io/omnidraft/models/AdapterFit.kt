package io.omnidraft.models

import io.omnidraft.AdapterException
import io.omnidraft.bundle.Bundle
import io.omnidraft.bundle.FloatTensor
import io.omnidraft.bundle.ModelEntry
import io.omnidraft.vocab.VocabMap

/* Find the model of a bundle that an adapter belongs to, and the tensors to feed its graph. */

/** A model of a bundle; the target first. */
internal enum class Role(val word: String) { TARGET("target"), DRAFTER("drafter") }

/** An adapter, or none, and the tensors to feed the graph of the model. */
internal class Fitted(val adapter: Adapter? = null, val tensors: Map<String, FloatTensor> = emptyMap()) {
    val digest: String? get() = adapter?.digest
}

/** The two models that an adapter is compared with, and what names them. */
internal class AdapterPlace(
    val name: String,
    val drafter: ModelEntry,
    val target: ModelEntry,
    val draftFingerprint: String,
    val targetFingerprint: String,
) {
    fun entry(role: Role): ModelEntry = if (role == Role.DRAFTER) drafter else target
}

internal fun placeOf(bundle: Bundle, map: VocabMap): AdapterPlace =
    AdapterPlace(bundle.path.name, bundle.drafter, bundle.target, map.draftFingerprint, map.targetFingerprint)

/**
 * The model that an adapter was made for, and the tensors to feed its graph.
 *
 * @param role the model; null tries both, and takes the drafter if both fit.
 */
internal fun fit(adapter: Adapter, place: AdapterPlace, role: Role? = null): Pair<Role, Fitted> {
    checkVocabulary("drafter", adapter.draftTokenizer, place.draftFingerprint, place.name)
    checkVocabulary("target", adapter.targetTokenizer, place.targetFingerprint, place.name)
    val roles = if (role == null) listOf(Role.DRAFTER, Role.TARGET) else listOf(role)
    val model = roles.firstOrNull { place.entry(it).fingerprint == adapter.base }
        ?: throw wrongBase(adapter, place, roles)
    val lora = place.entry(model).lora ?: throw noSites(place, model)
    try {
        return model to Fitted(adapter, adapter.inputs(lora))
    } catch (error: AdapterException) {
        val message = "the adapter does not fit the ${model.word} of ${place.name}: ${error.message}"
        throw AdapterException(error.fault, message, REMEDY)
    }
}

private const val REMEDY = "use the bundle that it was made for, or convert or train it again"

private fun checkVocabulary(who: String, ours: String, theirs: String, name: String) {
    if (ours == theirs) return
    val message = "the adapter was made for the $who tokenizer ${ours.take(12)} and $name has ${theirs.take(12)}"
    throw AdapterException("foreign_vocabulary", message, "use it with the pair of models that it was made for")
}

private fun wrongBase(adapter: Adapter, place: AdapterPlace, roles: List<Role>): AdapterException {
    val has = roles.joinToString(", ") { "${it.word} ${(place.entry(it).fingerprint ?: "unknown").take(12)}" }
    val message = "the adapter was made on the weights ${adapter.base.take(12)} and ${place.name} has $has"
    return AdapterException("wrong_base", message, REMEDY)
}

private fun noSites(place: AdapterPlace, role: Role): AdapterException {
    val remedy = if (role == Role.DRAFTER) "with lora_drafter = true" else "with lora_target = true"
    val message = "the ${role.word} of ${place.name} takes no adapters"
    return AdapterException("no_sites", message, "export it again $remedy")
}

internal fun unfitted(entry: ModelEntry): Fitted = Fitted(null, entry.lora?.let { noAdapter(it) } ?: emptyMap())
