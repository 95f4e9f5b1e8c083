package io.omnidraft.support

import io.omnidraft.decoding.SplitMix64
import org.junit.jupiter.api.Assertions.assertEquals

/** The runtime's own random source, on uniforms that are given; all of them must be taken. */
internal class GivenUniforms(private val uniforms: DoubleArray) : SplitMix64(0) {
    private var taken = 0

    override fun uniform(): Double {
        if (taken == uniforms.size) throw AssertionError("one uniform more than the vector has")
        return uniforms[taken++]
    }

    /** Fails if uniforms are left. */
    fun finish() = assertEquals(uniforms.size, taken, "uniforms that were taken")
}
