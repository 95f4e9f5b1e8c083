package io.omnidraft.models

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtException
import ai.onnxruntime.OrtLoggingLevel
import ai.onnxruntime.OrtLoraAdapter
import ai.onnxruntime.OrtSession
import io.omnidraft.BundleException
import io.omnidraft.decoding.Cancelled

/**
 * Runs a graph on bindings, one after another. Another thread can end a run, and an error of the engine is a
 * sentence with its name.
 */
internal class EngineRun(private val session: OrtSession, private val name: String) : AutoCloseable {
    // Held while the options are replaced or freed, never while a graph runs: cancelling does not wait for a pass.
    private val lock = Any()

    // Each model has its own options: an option that stops a pass stops all passes that use it.
    private var options: OrtSession.RunOptions? = newOptions()
    private var wasAsked = false

    /** Feeds the parameters of an adapter from the next run on, between two runs; null feeds none. */
    fun use(adapter: OrtLoraAdapter?) {
        val changed = newOptions().also { if (adapter != null) it.addActiveLoraAdapter(adapter) }
        synchronized(lock) { options.also { options = changed } }?.close()
    }

    /**
     * Runs the graph once.
     *
     * @param inputs by name.
     * @param outputs by name, in memory that the engine writes to.
     * @param cancelled asked before the run, and again where the run was interrupted: a run that nobody cancelled is
     *   repeated.
     * @throws BundleException `run`; onnxruntime cannot run the graph.
     */
    fun run(inputs: Map<String, OnnxTensor>, outputs: Map<String, OnnxTensor>, cancelled: () -> Boolean) {
        while (true) {
            if (cancelled()) throw Cancelled()
            try {
                session.run(inputs, emptySet(), outputs, checkNotNull(options) { "the model was closed" }).close()
                return
            } catch (error: OrtException) {
                if (!wasInterrupted()) throw engineRefused("run", "run $name", error)
            }
        }
    }

    /** Ends the run that is going on, or else the next one, within one operator; from any thread. */
    fun interrupt() {
        synchronized(lock) {
            wasAsked = true
            options?.setTerminate(true)
        }
    }

    override fun close() {
        synchronized(lock) { options.also { options = null } }?.close()
    }

    /** Whether the last run was asked to end; the next run is not. */
    private fun wasInterrupted(): Boolean = synchronized(lock) {
        wasAsked.also {
            wasAsked = false
            options?.setTerminate(false)
        }
    }
}

private fun newOptions() = OrtSession.RunOptions().also {
    it.setLogLevel(OrtLoggingLevel.ORT_LOGGING_LEVEL_FATAL) // failures are reported as exceptions
}
