"""Quantiles of Student's t distribution, for comparisons on few observations."""

NORMAL_95 = 1.959963984540054  # quantile of the normal distribution, two-sided 95 %


def student_t(deviations: float, freedom: float) -> float:
    """The quantile of Student's t at the probability where a normal variable has `deviations`.

    Cornish and Fisher's expansion (Hill 1970, to 1 / freedom^3). With 7 degrees of freedom 3 becomes 4.51
    (exactly 4.53), with 30 it becomes 3.27. At `NORMAL_95` the error is at most 0.0008 from 7 degrees on.

    Args:
        deviations: normal standard deviations.
        freedom: degrees of freedom, > 0.
    """
    z, v = deviations, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )
