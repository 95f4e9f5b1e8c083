package io.omnidraft.session

import io.omnidraft.BundleException
import io.omnidraft.bundle.Bundle
import io.omnidraft.bundle.ModelEntry
import io.omnidraft.bundle.Place
import io.omnidraft.bundle.SHARED_LAYOUT
import io.omnidraft.bundle.checkUnchanged
import io.omnidraft.bundle.checkedGraph
import io.omnidraft.models.CompiledGraphs
import io.omnidraft.models.Graph
import io.omnidraft.models.StaticForm
import io.omnidraft.models.StaticGraphs
import io.omnidraft.models.Weights

/* The weights of one model of a bundle: its dynamic graph, or the static graphs of the place that was chosen. */

/** The weights of a model, opened as [loading] asks, a pass of which takes some threads. */
internal fun openWeights(bundle: Bundle, entry: ModelEntry, threads: Int, loading: Loading): Weights {
    val weights = when (val place = entry.place) {
        null -> graph(bundle, entry, threads, loading.xnnpack)
        else -> statics(bundle, entry, place, threads, CompiledGraphs(loading.state, bundle.seal))
    }
    try {
        weights.checkAdapters(entry.lora)
        checkUnchanged(bundle.places, bundle.stamps)
    } catch (error: Throwable) {
        weights.close()
        throw error
    }
    return weights
}

private fun graph(bundle: Bundle, entry: ModelEntry, threads: Int, xnnpack: Boolean): Graph {
    if (entry.layout != SHARED_LAYOUT) {
        val message = "${bundle.path.name}/${entry.graph} has the layout ${entry.layout}, which runs on desktops only"
        throw BundleException("graph", message, "export the model with `omnidraft export`")
    }
    return Graph(checkedGraph(bundle, entry.graph), entry.kv, entry.vocabSize, threads, xnnpack)
}

private fun statics(
    bundle: Bundle,
    entry: ModelEntry,
    place: Place,
    threads: Int,
    compiled: CompiledGraphs,
): StaticGraphs {
    val graphs = place.form.graphs.mapValues { checkedGraph(bundle, it.value) }
    val form = StaticForm(graphs, bundle.file(place.host), entry.kv, entry.vocabSize, place.form.mask)
    return StaticGraphs(form, place.provider, threads, compiled)
}
