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
import java.lang.reflect.InvocationTargetException

/*
 * A session of onnxruntime on an execution provider, which is built in or a library of its own.
 *
 * On an accelerator nothing falls back to the CPU: a graph that the accelerator takes only in part is refused.
 */

// The blocks of a model share one mapped file of weights; packed, each session would hold its own.
private val NO_PREPACKING = mapOf("session.disable_prepacking" to "1")
private val STRICT = mapOf("session.disable_cpu_ep_fallback" to "1")
private const val QNN = "QNNExecutionProvider"
private const val NNAPI = "NnapiExecutionProvider"
private val BUILT_IN = mapOf(QNN to OrtProvider.QNN, NNAPI to OrtProvider.NNAPI)
private val LIBRARIES = mapOf(QNN to "libonnxruntime_providers_qnn.so") // of the app, from QNN 2 on

/** A session for a graph that runs entirely on [provider]. */
internal fun openGraph(path: File, provider: Provider, threads: Int, compiled: CompiledGraphs): OrtSession {
    val isBuiltIn = provider.name == CPU || BUILT_IN[provider.name] in OrtEnvironment.getAvailableProviders()
    val device = if (isBuiltIn) null else registered(Engine.environment, provider.name)
    if (!isBuiltIn && device == null) {
        val has = OrtEnvironment.getAvailableProviders().joinToString { it.getName() }
        throw BundleException(
            "graph", "onnxruntime ${Engine.version} has no ${provider.name} here, it has $has", "use the CPU",
        )
    }
    return try {
        val entries = if (provider.name == CPU) NO_PREPACKING else STRICT
        // Constants are folded: the weights of static graphs are float16 behind a Cast.
        fun load(graph: File, more: Map<String, String>) =
            sessionOptions(threads, entries + more, folds = true).use { options ->
                when {
                    device != null -> add(options, device, provider.options)
                    provider.name == QNN -> options.addQnn(provider.options)
                    provider.name == NNAPI -> options.addNnapi()
                }
                Engine.environment.createSession(graph.path, options)
            }
        if (provider.name == QNN) compiled.open(path, provider, ::load) else load(path, emptyMap())
    } catch (error: OrtException) {
        throw BundleException(
            "graph",
            "${provider.name} cannot load $path (${reason(error)})",
            "use the CPU, or run `omnidraft export` again",
        )
    }
}

/**
 * The NPU of a provider that is a library of the app, which is registered here; null where there is none.
 *
 * By reflection, as [add] is: the Java classes of engines before 1.23 have no such methods.
 *
 * @param environment of the engine.
 */
internal fun registered(environment: Any, name: String): Any? {
    val library = LIBRARIES[name] ?: return null
    val type = environment.javaClass
    return try {
        fun device() = (called(environment, "getEpDevices") as List<*>).filterNotNull().firstOrNull {
            called(it, "getName") == name && called(called(it, "getDevice"), "getType").toString() == "NPU"
        }
        device() ?: run {
            val register = type.getMethod("registerExecutionProviderLibrary", String::class.java, String::class.java)
            register.invoke(environment, name, library)
            device()
        }
    } catch (_: ReflectiveOperationException) {
        null // the engine takes no libraries, or the app has none that it takes
    }
}

private fun called(value: Any, method: String): Any = value.javaClass.getMethod(method).invoke(value)

private fun add(options: OrtSession.SessionOptions, device: Any, settings: Map<String, String>) {
    val add = options.javaClass.getMethod("addExecutionProvider", List::class.java, Map::class.java)
    try {
        add.invoke(options, listOf(device), settings)
    } catch (error: InvocationTargetException) {
        throw error.targetException
    }
}
