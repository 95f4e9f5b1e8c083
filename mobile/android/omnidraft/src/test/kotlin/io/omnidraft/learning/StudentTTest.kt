package io.omnidraft.learning

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

/** The expansion beside values of published tables of Student's t. */
class StudentTTest {
    @Test
    fun `two-sided 95 percent`() {
        for ((freedom, t) in mapOf(7 to 2.364624, 10 to 2.228139, 30 to 2.042272, 120 to 1.979930)) {
            assertEquals(t, studentT(NORMAL_95, freedom.toDouble()), 8e-4, "$freedom degrees")
        }
    }
}
