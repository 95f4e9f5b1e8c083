package io.omnidraft.device

/* The machine that costs were measured on: what decides how long a pass takes, nothing that names a user. */

import io.omnidraft.disk.at
import io.omnidraft.disk.integer
import io.omnidraft.disk.text
import java.io.File
import java.io.FileInputStream
import java.io.IOException

private const val MAX_CORES = 1 shl 16
private const val MAX_CPU = 256 // bytes
private const val MAX_TEXT = 64 // bytes
private const val CPUINFO = "/proc/cpuinfo"
private const val CPUINFO_BYTES = 1 shl 16 // the first cores are enough

/** A machine and how the models run on it. Costs are of one machine: all fields are equal. */
internal data class Machine(
    val cpu: String, // the model of the processor
    val cores: Int, // of the processor, that the process may use
    val system: String,
    val onnxruntime: String,
    val threads: Int,
    val targetOn: String, // the place of the target: `cpu`, or a name of `npu.providers`
    val drafterOn: String, // the place of the drafter
) {
    fun asJson(): Map<String, Any> = linkedMapOf(
        "cpu" to cpu,
        "cores" to cores,
        "system" to system,
        "onnxruntime" to onnxruntime,
        "threads" to threads,
        "target_on" to targetOn,
        "drafter_on" to drafterOn,
    )
}

internal fun readMachine(data: Map<String, Any?>): Machine = Machine(
    cpu = text(data.at("cpu"), MAX_CPU),
    cores = integer(data.at("cores"), 1, MAX_CORES),
    system = text(data.at("system"), MAX_TEXT),
    onnxruntime = text(data.at("onnxruntime"), MAX_TEXT),
    threads = integer(data.at("threads"), 1, MAX_CORES),
    targetOn = text(data.at("target_on"), MAX_CPU),
    drafterOn = text(data.at("drafter_on"), MAX_CPU),
)

internal fun thisMachine(onnxruntime: String, threads: Int, targetOn: String, drafterOn: String): Machine {
    val architecture = System.getProperty("os.arch").orEmpty()
    return Machine(
        cpu = short(cpu().ifEmpty { architecture }.ifEmpty { "unknown" }, MAX_CPU),
        cores = Runtime.getRuntime().availableProcessors().coerceIn(1, MAX_CORES),
        system = short("${system()} $architecture", MAX_TEXT),
        onnxruntime = short(onnxruntime, MAX_TEXT),
        threads = threads,
        targetOn = short(targetOn, MAX_CPU),
        drafterOn = short(drafterOn, MAX_CPU),
    )
}

/** The name of the system; Android says of itself that it is Linux. */
private fun system(): String =
    if ("Android" in System.getProperty("java.vendor").orEmpty()) "Android" else System.getProperty("os.name").orEmpty()

/** The model of the processor; empty where the system does not tell it. */
private fun cpu(): String = try {
    FileInputStream(File(CPUINFO)).use { cpuOf(String(firstBytes(it), Charsets.UTF_8)) }
} catch (_: IOException) {
    "" // a phone may hide the file
}

/** The first bytes of a file of /proc, which tells no length and answers in parts. */
private fun firstBytes(file: FileInputStream): ByteArray {
    val data = ByteArray(CPUINFO_BYTES)
    var count = 0
    while (count < data.size) {
        val read = file.read(data, count, data.size - count)
        if (read <= 0) break
        count += read
    }
    return data.copyOf(count)
}

/** The model of the processor in the text of /proc/cpuinfo: its name, or its kinds of cores by number. */
internal fun cpuOf(cpuinfo: String): String {
    val fields = cpuinfo.split("\n").map { it.substringBefore(":").trim() to it.substringAfter(":", "").trim() }
    fields.firstOrNull { (name, value) -> name == "model name" && value.isNotEmpty() }?.let { return it.second }
    val makers = fields.filter { it.first == "CPU implementer" }
    val parts = fields.filter { it.first == "CPU part" }
    return makers.zip(parts) { maker, part -> "${maker.second} ${part.second}" }.toSortedSet().joinToString()
}

/** A text in one line of printable characters, of at most [most] bytes. */
private fun short(value: String, most: Int): String {
    fun isShown(it: Char) = !it.isISOControl() && !it.isSurrogate() && it.category != CharCategory.FORMAT
    val line = value.map { if (isShown(it)) it else ' ' }.joinToString("")
    val words = line.split(' ').filter { it.isNotEmpty() }.joinToString(" ")
    var bytes = 0
    return words.takeWhile { char ->
        bytes += char.toString().toByteArray().size
        bytes <= most
    }
}
