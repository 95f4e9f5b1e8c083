package io.omnidraft.session

import io.omnidraft.AdapterException
import io.omnidraft.SessionFileException
import io.omnidraft.disk.u32
import io.omnidraft.models.decodeAdapter
import io.omnidraft.models.encodeAdapter
import io.omnidraft.session.state.SESSION_HEADER_BYTES
import io.omnidraft.session.state.decodeSession
import io.omnidraft.session.state.encodeSession
import io.omnidraft.session.state.sessionFile
import io.omnidraft.support.changedBytes
import io.omnidraft.support.checkChanged
import io.omnidraft.support.vectorFiles
import kotlin.random.Random
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Test

/** Files with changed bytes are refused by a named fault, or read and written again as they are. */
internal class SessionFuzzTest {
    private val random = Random(11)

    @Test
    fun sessionsWithChangedBytes() {
        val faults = setOf("not_a_session", "truncated", "version", "reserved", "limits", "trailing", "checksum", "state")
        // A change behind the header has a wrong checksum, but where it is none.
        val rare = setOf("state", "limits")
        val files = vectorFiles("session/valid", ".bin")
        checkChanged(files, random, faults, SessionFileException::class.java, rare, least = 0.0) {
            val data = changedBytes(it, random)
            val (saved, cache) = decodeSession(data)
            assertArrayEquals(data, encodeSession(saved, cache))
        }
    }

    @Test
    fun statesWithChangedBytesBehindARightHeader() {
        val files = vectorFiles("session/valid", ".bin")
        val cache = decodeSession(files[0]).second
        val states = files.map { it.copyOfRange(SESSION_HEADER_BYTES, SESSION_HEADER_BYTES + u32(it, 16).toInt()) }
        checkChanged(states, random, setOf("state"), SessionFileException::class.java) { given ->
            val data = sessionFile(changedBytes(given, random), cache)
            val (saved, read) = decodeSession(data)
            assertArrayEquals(data, encodeSession(saved, read))
        }
    }

    @Test
    fun adaptersWithChangedBytes() {
        val faults = setOf(
            "not_an_adapter", "truncated", "version", "layout", "trailing_bytes", "dtype", "missing_tensor",
            "extra_tensor", "metadata", "shape", "non_finite", "rank",
        )
        val rare = setOf("rank", "shape", "dtype", "extra_tensor")
        checkChanged(vectorFiles("adapter/valid", ".safetensors"), random, faults, AdapterException::class.java, rare) {
            val adapter = decodeAdapter(changedBytes(it, random))
            assertArrayEquals(encodeAdapter(adapter), encodeAdapter(decodeAdapter(encodeAdapter(adapter))))
        }
    }
}
