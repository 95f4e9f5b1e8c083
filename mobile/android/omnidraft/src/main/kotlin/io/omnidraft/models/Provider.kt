package io.omnidraft.models

import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtException
import ai.onnxruntime.OrtProvider
import ai.onnxruntime.OrtSession
import io.omnidraft.BundleException
import io.omnidraft.bundle.CPU
import io.omnidraft.bundle.Provider
import io.omnidraft.reason
import java.io.File

/*
 * A session of onnxruntime on an execution provider that is built into the engine.
 *
 * On an accelerator nothing falls back to the CPU: a graph that the accelerator takes only in part is refused.
 */

// The blocks of a model share one mapped file of weights; packed, each session would hold its own.
private val NO_PREPACKING = mapOf("session.disable_prepacking" to "1")
private val STRICT = mapOf("session.disable_cpu_ep_fallback" to "1")
private const val QNN = "QNNExecutionProvider"
private const val NNAPI = "NnapiExecutionProvider"
private val BUILT_IN = mapOf(QNN to OrtProvider.QNN, NNAPI to OrtProvider.NNAPI)

/** A session for a graph that runs entirely on [provider]. */
internal fun openGraph(path: File, provider: Provider, threads: Int): OrtSession {
    if (provider.name != CPU && BUILT_IN[provider.name] !in OrtEnvironment.getAvailableProviders()) {
        val has = OrtEnvironment.getAvailableProviders().joinToString { it.getName() }
        throw BundleException(
            "graph", "onnxruntime ${Engine.version} has no ${provider.name} here, it has $has", "use the CPU",
        )
    }
    return try {
        val entries = if (provider.name == CPU) NO_PREPACKING else STRICT
        // Constants are folded: the weights of static graphs are float16 behind a Cast.
        sessionOptions(threads, entries, folds = true).use { options ->
            when (provider.name) {
                QNN -> options.addQnn(provider.options)
                NNAPI -> options.addNnapi()
            }
            Engine.environment.createSession(path.path, options)
        }
    } catch (error: OrtException) {
        throw BundleException(
            "graph",
            "${provider.name} cannot load $path (${reason(error)})",
            "use the CPU, or run `omnidraft export` again",
        )
    }
}
