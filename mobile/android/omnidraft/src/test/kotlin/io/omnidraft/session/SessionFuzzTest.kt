package io.omnidraft.session

import io.omnidraft.AdapterException
import io.omnidraft.OmniDraftException
import io.omnidraft.SessionFileException
import io.omnidraft.disk.u32
import io.omnidraft.models.decodeAdapter
import io.omnidraft.models.encodeAdapter
import io.omnidraft.session.state.SESSION_HEADER_BYTES
import io.omnidraft.session.state.decodeSession
import io.omnidraft.session.state.encodeSession
import io.omnidraft.session.state.sessionFile
import io.omnidraft.support.changedBytes
import io.omnidraft.support.vectorFiles
import kotlin.random.Random
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** Files with changed bytes are refused by a named fault, or read and written again as they are. */
internal class SessionFuzzTest {
    private val random = Random(11)

    @Test
    fun sessionsWithChangedBytes() {
        val files = vectorFiles("session/valid", ".bin")
        val refused = refusals(files) { data ->
            val (saved, cache) = decodeSession(data)
            assertArrayEquals(data, encodeSession(saved, cache))
        }
        assertTrue(refused.all { it is SessionFileException && it.fault.isNotEmpty() })
    }

    @Test
    fun statesWithChangedBytesBehindARightHeader() {
        val files = vectorFiles("session/valid", ".bin")
        val cache = decodeSession(files[0]).second
        val states = files.map { it.copyOfRange(SESSION_HEADER_BYTES, SESSION_HEADER_BYTES + u32(it, 16).toInt()) }
        val refused = refusals(states) { state ->
            val data = sessionFile(state, cache)
            val (saved, read) = decodeSession(data)
            assertArrayEquals(data, encodeSession(saved, read))
        }
        assertTrue(refused.all { it.fault == "state" })
    }

    @Test
    fun adaptersWithChangedBytes() {
        val files = vectorFiles("adapter/valid", ".safetensors")
        val refused = refusals(files) { data ->
            val adapter = decodeAdapter(data)
            assertArrayEquals(encodeAdapter(adapter), encodeAdapter(decodeAdapter(encodeAdapter(adapter))))
        }
        assertTrue(refused.all { it is AdapterException && it.fault.isNotEmpty() })
    }

    /** Reads many changed files; any other exception than a refusal fails the test. */
    private fun refusals(files: List<ByteArray>, read: (ByteArray) -> Unit): List<OmniDraftException> {
        val refused = ArrayList<OmniDraftException>()
        repeat(4000) {
            try {
                read(changedBytes(files[it % files.size], random))
            } catch (error: OmniDraftException) {
                refused.add(error)
            }
        }
        assertTrue(refused.size > 1000)
        return refused
    }
}
