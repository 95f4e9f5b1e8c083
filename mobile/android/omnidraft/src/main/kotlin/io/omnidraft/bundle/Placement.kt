package io.omnidraft.bundle

import io.omnidraft.SettingException
import io.omnidraft.disk.quoted

/* Choose where the models of a bundle run: the dynamic graph on the CPU, or static graphs on a provider. */

internal const val CPU_GRAPH = "cpu"

/**
 * The bundle with a chosen place for each model.
 *
 * @param targetOn "cpu" for the dynamic graph; "npu" for the static graphs on the CPU; or a provider that the bundle was
 *   exported for ("qnn", "qnn-fp16", "nnapi").
 * @throws SettingException the bundle has no such place.
 */
internal fun placed(bundle: Bundle, targetOn: String = CPU_GRAPH, drafterOn: String = CPU_GRAPH): Bundle = bundle.copy(
    target = placed(bundle, "target", bundle.target, targetOn),
    drafter = placed(bundle, "drafter", bundle.drafter, drafterOn),
)

private fun placed(bundle: Bundle, role: String, entry: ModelEntry, where: String): ModelEntry {
    if (where == CPU_GRAPH) return entry.copy(place = null)
    val place = entry.places[where] ?: throw SettingException(
        "the $role of ${bundle.path.name} has no graphs for ${quoted(where)}, it has ${placesOf(entry)}",
        "export again with --npu, or choose one of these",
    )
    val rank = place.form.loraRank // null: the static graphs take no adapters
    val lora = if (rank == null) null else entry.lora?.copy(rank = rank)
    return entry.copy(place = place, kv = entry.kv.of(place), lora = lora)
}

private fun placesOf(entry: ModelEntry): String = (listOf(CPU_GRAPH) + entry.places.keys).joinToString()
