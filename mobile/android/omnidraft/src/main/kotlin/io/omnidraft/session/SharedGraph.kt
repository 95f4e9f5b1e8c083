package io.omnidraft.session

import io.omnidraft.SessionException
import io.omnidraft.models.OwnModel
import io.omnidraft.models.Weights

/**
 * A graph that sessions share. It is loaded when it is first used, and freed when nobody uses it and it was asked for.
 */
internal class SharedGraph(private val load: () -> Weights) : AutoCloseable {
    private var graph: Weights? = null
    private var users = 0
    private var isClosed = false

    /** A model on the graph, with a context of its own; give it back with [release]. */
    @Synchronized
    fun acquire(): OwnModel {
        if (isClosed) throw SessionException("the bundle was closed", "open it again")
        val loaded = graph ?: load().also { graph = it }
        return loaded.newModel().also { users++ }
    }

    fun <T> lent(work: (OwnModel) -> T): T {
        val model = acquire()
        try {
            return work(model)
        } finally {
            release(model, free = false)
        }
    }

    /** Frees a model; with [free] also the weights, if no other session uses them. */
    @Synchronized
    fun release(model: OwnModel, free: Boolean) {
        model.close()
        users--
        if (users == 0 && (free || isClosed)) unload()
    }

    /** Frees the weights as soon as nobody uses them. */
    @Synchronized
    override fun close() {
        isClosed = true
        if (users == 0) unload()
    }

    @Synchronized
    fun ready(): SharedGraph {
        if (graph == null) graph = load()
        return this
    }

    private fun unload() {
        graph?.close()
        graph = null
    }
}
