package io.omnidraft.models

import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtException
import ai.onnxruntime.OrtLoggingLevel
import ai.onnxruntime.OrtProvider
import ai.onnxruntime.OrtSession
import java.io.File

/*
 * Sessions of onnxruntime: the one place that sets their options.
 */

/** The environment of the engine, one for a process. Nothing here leaves the device, so usage is not reported. */
internal object Engine {
    val environment: OrtEnvironment

    /** The engine's version, such as `1.21.0`. */
    val version: String

    init {
        refuseTelemetry()
        environment = OrtEnvironment.getEnvironment(OrtLoggingLevel.ORT_LOGGING_LEVEL_ERROR)
        environment.setTelemetry(false)
        version = environment.version
    }
}

// From 1.29 on the engine asks this variable before there is an environment. Only Android can set it in a running program,
// with a class that a desktop does not have: there the program is started with it.
private fun refuseTelemetry() {
    val os = try {
        Class.forName("android.system.Os")
    } catch (_: ClassNotFoundException) {
        return
    }
    os.getMethod("setenv", String::class.java, String::class.java, Boolean::class.java)
        .invoke(null, "ORT_DISABLE_TELEMETRY", "1", true)
}

/** Whether the engine was built with kernels of XNNPACK. */
internal fun hasXnnpack(): Boolean = OrtProvider.XNNPACK in OrtEnvironment.getAvailableProviders()

// A small graph can name constants of any size, and folding them would take that memory and time while it is
// loaded. Exported graphs hold nothing to fold; adopted graphs compute some twenty small values in each pass.
private const val UNFOLDED = "ConstantFolding"

/**
 * How long the threads of a session spin before they sleep, as entries of the engine's configuration.
 *
 * Waking a thread takes longer than many operators, and threads that spin cost battery. So they spin for 0.2 ms, which is
 * longer than the work between two passes of plain decoding. Engines before 1.26 know no time: there threads spin within
 * a pass, and sleep between passes.
 *
 * @param engine the version of onnxruntime, such as `1.27.0`.
 */
internal fun spinning(engine: String): Map<String, String> {
    val (major, minor) = engine.split(".").map { it.toIntOrNull() ?: 0 } + listOf(0, 0)
    val knowsTimes = major > 1 || (major == 1 && minor >= 26)
    return if (knowsTimes) {
        mapOf("session.intra_op.spin_duration_us" to "200")
    } else {
        mapOf("session.force_spinning_stop" to "1")
    }
}

internal fun sessionOptions(
    threads: Int,
    entries: Map<String, String> = emptyMap(), // more of onnxruntime's configuration, by key
    folds: Boolean = false, // whether the engine computes constants when it loads a graph
): OrtSession.SessionOptions {
    val options = OrtSession.SessionOptions()
    options.setIntraOpNumThreads(threads)
    options.setInterOpNumThreads(1)
    options.setSessionLogLevel(OrtLoggingLevel.ORT_LOGGING_LEVEL_FATAL) // each failure is an exception
    options.addConfigEntry("session.load_model_format", "ONNX") // whatever a file's name is: no other can be checked
    for ((key, value) in spinning(Engine.version)) options.addConfigEntry(key, value)
    // Work is cut into blocks that shrink, so that fast cores do not wait for a slow one.
    if (threads > 1) options.addConfigEntry("session.dynamic_block_base", "4")
    if (!folds) options.addConfigEntry("optimization.disable_specified_optimizers", UNFOLDED)
    for ((key, value) in entries) options.addConfigEntry(key, value)
    return options
}

internal fun cpuSession(path: File, threads: Int, xnnpack: Boolean = false): OrtSession = loaded(path) {
    sessionOptions(threads).use { options ->
        if (xnnpack) options.addXnnpack(mapOf("intra_op_num_threads" to threads.toString()))
        Engine.environment.createSession(path.path, options)
    }
}

/** A session for a graph in memory on the CPU. */
internal fun bytesSession(graph: ByteArray, path: File, weights: File): OrtSession = loaded(path) {
    val key = "session.model_external_initializers_file_folder_path"
    sessionOptions(1, mapOf(key to weights.path)).use { Engine.environment.createSession(graph, it) }
}

private fun loaded(path: File, create: () -> OrtSession): OrtSession = try {
    create()
} catch (error: OrtException) {
    throw engineRefused("graph", "load $path", error)
}
