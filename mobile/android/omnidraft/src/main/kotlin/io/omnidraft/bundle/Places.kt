package io.omnidraft.bundle

/* The static graphs of a model in a manifest, and the providers that may run them (spec/03-bundle.md, npu). */

import io.omnidraft.disk.ValueError
import io.omnidraft.disk.array
import io.omnidraft.disk.at
import io.omnidraft.disk.integer
import io.omnidraft.disk.mapping
import io.omnidraft.disk.number
import io.omnidraft.disk.quoted
import io.omnidraft.disk.text

/** onnxruntime's name of the CPU. */
internal const val CPU = "CPUExecutionProvider"

/** The place of the float graphs on the CPU, which each bundle with static graphs has. */
internal const val NPU = "npu"
private val RESERVED = setOf("cpu", NPU)

internal data class Provider(val name: String = CPU, val options: Map<String, String> = emptyMap())

/** Static graphs of one number format. */
internal data class Form(
    val graphs: Map<Int, String>, // paths by the number of tokens of a block; one graph is for single tokens
    val weights: String, // the file that the graphs share
    val mask: Double, // added to the score of a hidden position
    val loraRank: Int? = null, // of adapters, for each part of a site; null if the graphs take none
) {
    val files: List<String> get() = graphs.values + weights
}

/** A form of static graphs, and the provider that runs them. */
internal data class Place(val form: Form, val host: String, val kvLength: Int, val provider: Provider = Provider()) {
    val files: List<String> get() = form.files + host
}

/** The places in the field `npu` of a manifest, and the place "npu": the float graphs on the CPU. */
internal fun readPlaces(data: Map<String, Any?>): Map<String, Place> {
    val host = text(data.at("host"))
    val kvLength = integer(data.at("kv_length"), 1)
    val forms = mapping(data.at("forms")).mapValues { formOf(it.value, kvLength) }
    val places = linkedMapOf(NPU to Place(formAt(forms, "float"), host, kvLength, Provider(CPU)))
    for ((name, value) in mapping(data.at("providers"))) {
        if (name in RESERVED || !isPlaceName(name)) throw ValueError("a place cannot be named ${quoted(name)}")
        val entry = mapping(value)
        places[name] = Place(formAt(forms, text(entry.at("form"))), host, kvLength, providerOf(entry))
    }
    return places
}

private fun formAt(forms: Map<String, Form>, name: String): Form =
    forms[name] ?: throw ValueError("there are no static graphs ${quoted(name)}")

private fun isPlaceName(name: String): Boolean =
    name.length in 1..32 && name[0] != '-' && name.all { it in 'a'..'z' || it in '0'..'9' || it == '-' }

/** No value is a path. */
private fun isValue(value: String): Boolean = value.length in 1..64 &&
    value.all { it in 'A'..'Z' || it in 'a'..'z' || it in '0'..'9' || it in "_.+-" }

/** The provider of a place. No option of [BundleLimits] names a file: a provider would load it as code. */
private fun providerOf(entry: Map<String, Any?>): Provider {
    val name = text(entry.at("provider"))
    val known = BundleLimits.PROVIDER_OPTIONS[name]
        ?: throw ValueError("provider ${quoted(name)} is not one of ${BundleLimits.PROVIDER_OPTIONS.keys.joinToString()}")
    val options = mapping(entry.at("options")).mapValues { text(it.value) }
    for ((key, option) in options) {
        if (key in known && isValue(option)) continue
        throw ValueError("option ${quoted(key)} of $name cannot be set to ${quoted(option)} by a bundle")
    }
    val directories = array(if ("directories" in entry) entry["directories"] else emptyList<Any?>()).map { text(it) }
    directories.firstOrNull { it !in BundleLimits.PROVIDER_DIRECTORIES }?.let {
        throw ValueError("${quoted(it)} is not a directory that a device chooses")
    }
    return Provider(name, options)
}

private fun formOf(value: Any?, kvLength: Int): Form {
    val data = mapping(value)
    val graphs = array(data.at("graphs")).map { mapping(it) }.associate { entry ->
        integer(entry.at("block"), 1, kvLength) to text(entry.at("graph"))
    }
    if (1 !in graphs) throw ValueError("static graphs for blocks of ${graphs.keys} tokens and none for one")
    val mask = number(data.at("mask"))
    if (mask < BundleLimits.LEAST_MASK || mask >= 0) throw ValueError("mask $mask is not between -1e9 and 0")
    val loraRank = if ("lora_rank" in data) integer(data["lora_rank"], 1, BundleLimits.MAX_RANK) else null
    return Form(graphs, text(data.at("weights")), mask, loraRank)
}
