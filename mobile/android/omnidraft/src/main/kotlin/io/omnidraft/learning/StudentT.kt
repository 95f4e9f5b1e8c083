package io.omnidraft.learning

/* Quantiles of Student's t distribution, for comparisons on few observations. */

/** Quantile of the normal distribution, two-sided 95 %. */
internal const val NORMAL_95 = 1.959963984540054

/**
 * The quantile of Student's t at the probability where a normal variable has [deviations].
 *
 * Cornish and Fisher's expansion (Hill 1970, to 1 / freedom^3). With 7 degrees of freedom 3 becomes 4.51 (exactly 4.53),
 * with 30 it becomes 3.27. At [NORMAL_95] the error is at most 0.0008 from 7 degrees on.
 *
 * @param deviations normal standard deviations.
 * @param freedom degrees of freedom, above 0.
 */
internal fun studentT(deviations: Double, freedom: Double): Double {
    val z = deviations
    val v = freedom
    val z2 = z * z
    return z +
        z * (z2 + 1) / (4 * v) +
        z * ((5 * z2 + 16) * z2 + 3) / (96 * v * v) +
        z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * v * v * v)
}
