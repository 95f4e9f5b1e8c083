package io.omnidraft.sample

import java.math.BigDecimal
import java.math.RoundingMode

/** One line: tokens a second with and without drafts, the ratio, and the heat. */
fun status(screen: Screen): String {
    val fast = screen.tokensPerSecond[Speed.SPECULATIVE]
    val plain = screen.tokensPerSecond[Speed.PLAIN]
    val parts = listOfNotNull(
        screen.title.ifEmpty { null },
        fast?.let { "with drafts ${rounded(it)} tokens/s" },
        plain?.let { "without ${rounded(it)} tokens/s" },
        if (fast != null && plain != null && plain > 0) "${rounded(fast / plain)} times" else null,
        HEAT[screen.heat].ifEmpty { null },
    )
    return parts.joinToString(" - ")
}

private val HEAT = listOf("", "warm: no learning", "hot: slower", "too hot: waiting")

internal fun rounded(value: Double): String = BigDecimal(value).setScale(1, RoundingMode.HALF_UP).toPlainString()
