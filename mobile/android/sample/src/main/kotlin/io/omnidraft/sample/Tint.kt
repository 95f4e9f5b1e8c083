package io.omnidraft.sample

import android.graphics.Color
import android.text.SpannableString
import android.text.Spanned
import android.text.style.BackgroundColorSpan

/** Text of a round; the stronger its tint, the more of its tokens were drafted. */
fun tinted(span: Span): CharSequence {
    if (span.drafted == 0f) return span.text
    val text = SpannableString(span.text)
    val color = Color.argb((STRONGEST * span.drafted).toInt(), RED, GREEN, BLUE)
    text.setSpan(BackgroundColorSpan(color), 0, text.length, Spanned.SPAN_EXCLUSIVE_EXCLUSIVE)
    return text
}

private const val STRONGEST = 120
private const val RED = 0x30
private const val GREEN = 0x90
private const val BLUE = 0x50
