package io.omnidraft.models

import ai.onnxruntime.OrtException
import io.omnidraft.bundle.Provider
import io.omnidraft.device.StateDirectory
import java.io.File
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

private const val QNN = "QNNExecutionProvider"

/** What a phone has for a provider that no engine here has: its library, and the graphs that it compiled. */
internal class ProviderTest {
    @TempDir
    lateinit var folder: File
    private val graph by lazy { File(folder, "verify_5.onnx").apply { writeText("graph") } }
    private val place get() = File(folder, "state/compiled")
    private val wrong = OrtException("no graph")

    /** What is opened, with a provider that writes [content] where it is asked to compile, or nothing. */
    private fun opened(content: String?, options: Map<String, String> = emptyMap(), seal: String = "seal"): String =
        CompiledGraphs(StateDirectory(File(folder, "state")), seal).open(graph, Provider(QNN, options)) { file, entries ->
            val path = entries["ep.context_file_path"]
            if (path != null && content == "full disk") throw wrong
            if (path != null && content != null) File(path).writeText(content)
            file.readText().also { if (it == "damaged") throw wrong }
        }

    private fun kept(): List<String> = place.listFiles().orEmpty().map { it.readText() }.sorted()

    @Test
    fun `a graph is compiled once for each bundle, provider and its options`() {
        assertEquals(listOf("graph", "first", "first"), listOf("first", "second", null).map { opened(it) })
        assertEquals("graph", opened("other", mapOf("soc_model" to "57")))
        assertEquals("graph", opened("third", seal = "another"))
        assertEquals(listOf("first", "other", "third"), kept())
    }

    @Test
    fun `a compiled graph that the engine refuses is compiled again`() {
        opened("damaged")
        assertEquals("graph", opened("sound"))
        assertEquals("sound", opened(null))
    }

    @Test
    fun `a graph opens where nothing can be kept, and a graph that is refused stays refused`() {
        assertEquals("graph", opened(null), "the provider writes nothing")
        assertEquals("graph", opened("full disk"))
        graph.writeText("damaged")
        assertThrows(OrtException::class.java) { opened("compiled") }
        assertEquals(emptyList<String>(), kept())
    }

    @Test
    fun `the oldest compiled graphs and leftovers of killed programs are deleted`() {
        opened("0", seal = "0")
        val name = place.list()!!.single()
        val left = File(place, ".$name.${"0".repeat(16)}.tmp").apply { writeText("half") }
        for (file in listOf(left, File(place, name))) file.setLastModified(1_000)
        for (number in 1..12) opened("$number", seal = "$number")
        assertEquals(13, place.list()!!.size, "twelve, and a leftover of another graph")
        assertEquals("graph", opened("again", seal = "0"))
        assertEquals(false, left.exists())
    }

    /** As the Java classes of onnxruntime are from 1.23 on. */
    class Environment {
        enum class Type { CPU, NPU }
        class Hardware(val type: Type)
        class Device(val name: String, type: Type) {
            val device: Hardware = Hardware(type)
        }

        val libraries = ArrayList<String>()
        private val all = arrayListOf(Device("CPUExecutionProvider", Type.CPU))

        fun getEpDevices(): List<Device> = all.toList()

        fun registerExecutionProviderLibrary(name: String, library: String) {
            libraries.add(library)
            for (type in Type.entries) all.add(Device(name, type))
        }
    }

    @Test
    fun `the library of a provider is registered once`() {
        val environment = Environment()
        val found = List(2) { registered(environment, QNN) as Environment.Device }
        assertEquals(List(2) { QNN to Environment.Type.NPU }, found.map { it.name to it.device.type })
        assertEquals(listOf("libonnxruntime_providers_qnn.so"), environment.libraries)
        assertNull(registered(environment, "NnapiExecutionProvider"), "it has no library")
        assertNull(registered(Engine.environment, QNN), "the engine here takes no libraries")
    }
}
