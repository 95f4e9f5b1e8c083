package io.omnidraft.bundle

/*
 * The sites of a graph, its products that an adapter can change, and the names of the adapter's inputs
 * (spec/11-adapter.md).
 */

/** The name of the graph's input for A of a site. */
internal fun aName(site: String): String = "$site.lora_a"

/** The name of the graph's input for B of a site. */
internal fun bName(site: String): String = "$site.lora_b"

/** A part of the output of a site: its name and its width. */
internal data class Part(val name: String, val width: Int)

/** A product that an adapter can change. */
internal data class Site(val inputs: Int, val parts: List<Part>) {
    val outputs: Int get() = parts.sumOf { it.width }
}

/**
 * Where adapters enter a graph.
 *
 * @property rank of A and B for each part of a site, which must be fed; null where any rank fits, fed or not.
 * @property sites by name, `layers.{i}.{product}`, in the order of the manifest.
 */
internal data class LoraSites(val rank: Int?, val sites: Map<String, Site>) {
    /** The fixed rank of a site: parts that were trained apart lie side by side in it. */
    fun rankOf(name: String): Int = checkNotNull(rank) { "any rank fits" } * sites.getValue(name).parts.size
}
