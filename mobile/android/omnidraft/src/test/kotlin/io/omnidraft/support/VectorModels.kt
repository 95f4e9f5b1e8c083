package io.omnidraft.support

import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.ModelEntry
import io.omnidraft.bundle.Part
import io.omnidraft.bundle.Site
import io.omnidraft.conformance.Json
import io.omnidraft.conformance.int
import io.omnidraft.conformance.list
import io.omnidraft.conformance.obj
import io.omnidraft.conformance.str

/** A model of a vector, with the fields that concern adapters. */
internal fun adapterEntry(role: String, given: Json): ModelEntry {
    val model = given[role].obj()
    val fingerprint = model["fingerprint"]?.str()
    return modelEntry(role, 16, fingerprint = fingerprint, lora = model["lora"]?.obj()?.let { loraOf(it) })
}

internal fun loraOf(given: Json): LoraSites = LoraSites(
    given["rank"]?.int(),
    given["sites"].obj().mapValues { (_, each) ->
        val site = each.obj()
        Site(site["inputs"].int(), site["parts"].list().map { Part(it.list()[0].str(), it.list()[1].int()) })
    },
)
