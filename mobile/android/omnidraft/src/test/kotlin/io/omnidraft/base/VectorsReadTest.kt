package io.omnidraft.base

import io.omnidraft.conformance.COUNTS
import io.omnidraft.conformance.close
import io.omnidraft.conformance.vectorsOf
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class VectorsReadTest {
    @Test
    fun `every folder of the manifest is read whole`() {
        assertEquals(COUNTS, COUNTS.keys.associateWith { vectorsOf(it).size })
        assertTrue(COUNTS.size > 50)
    }

    @Test
    fun `names are unique in a folder, and each vector says why`() {
        for (folder in COUNTS.keys) {
            val vectors = vectorsOf(folder)
            assertEquals(vectors.size, vectors.map { it.name }.toSet().size, folder)
            assertTrue(vectors.all { it.why.isNotEmpty() }, folder)
        }
    }

    @Test
    fun `probabilities are zero in the same places`() {
        assertFalse(close(1e-300, 0.0, 1e-6))
        assertFalse(close(0.0, 1e-300, 1e-6))
        assertTrue(close(0.5 + 1e-7, 0.5, 1e-6))
        assertFalse(close(0.5 + 1e-5, 0.5, 1e-6))
    }
}
