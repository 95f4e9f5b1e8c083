package io.omnidraft.models

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

/** Options of sessions: how long the threads of a pass spin. */
internal class OnnxSessionTest {
    @Test
    fun `threads sleep soon after a pass in every engine`() {
        val sleep = mapOf("session.force_spinning_stop" to "1")
        val spin = mapOf("session.intra_op.spin_duration_us" to "200")
        for (engine in listOf("1.23.0", "1.25.1", "1", "")) assertEquals(sleep, spinning(engine), engine)
        for (engine in listOf("1.26.0", "1.31.1", "2.0.0", "1.32.0-dev")) assertEquals(spin, spinning(engine), engine)
    }
}
