package io.omnidraft.bundle

import io.omnidraft.SettingException
import io.omnidraft.disk.quoted

/* Choose where the models of a bundle run: the dynamic graph on the CPU, or static graphs on a provider. */

/** The place of the dynamic graphs. */
internal const val CPU_GRAPH = "cpu"

/**
 * The bundle with a chosen place for each model.
 *
 * @param targetOn "cpu" for the dynamic graph; "npu" for the static graphs on the CPU; or a provider that the bundle was
 *   exported for ("qnn", "qnn-fp16", "nnapi"), with more options for it behind a colon: "qnn:soc_model=57".
 * @param drafterOn the same for the drafter.
 * @throws SettingException the bundle has no such place, or an option is not NAME=VALUE.
 */
internal fun placed(bundle: Bundle, targetOn: String = CPU_GRAPH, drafterOn: String = CPU_GRAPH): Bundle = bundle.copy(
    target = placed(bundle, "target", bundle.target, targetOn),
    drafter = placed(bundle, "drafter", bundle.drafter, drafterOn),
)

private fun placed(bundle: Bundle, role: String, entry: ModelEntry, where: String): ModelEntry {
    val name = where.substringBefore(':')
    val settings = where.substringAfter(':', "")
    if (name == CPU_GRAPH && settings.isEmpty()) return entry.copy(place = null)
    val place = entry.places[name] ?: throw SettingException(
        "the $role of ${bundle.path.name} has no graphs for ${quoted(name)}, it has ${placesOf(entry)}",
        "export again with --npu, or choose one of these",
    )
    val given = if (settings.isEmpty()) place else place.copy(provider = withSettings(place, settings))
    val rank = place.form.loraRank // null: the static graphs take no adapters
    val lora = if (rank == null) null else entry.lora?.copy(rank = rank)
    return entry.copy(place = given, kv = entry.kv.copy(maxLength = place.kvLength), lora = lora)
}

private fun placesOf(entry: ModelEntry): String = (listOf(CPU_GRAPH) + entry.places.keys).joinToString()

/** The provider of a place with more options, written as NAME=VALUE,NAME=VALUE. */
private fun withSettings(place: Place, settings: String): Provider {
    val more = LinkedHashMap(place.provider.options)
    for (setting in settings.split(",")) {
        val key = setting.substringBefore('=')
        val value = setting.substringAfter('=', "")
        if (key.isEmpty() || value.isEmpty()) {
            val message = "provider option ${quoted(setting)} is not NAME=VALUE"
            throw SettingException(message, "soc_model=57 would be one", "provider")
        }
        more[key] = value
    }
    return place.provider.copy(options = more)
}
