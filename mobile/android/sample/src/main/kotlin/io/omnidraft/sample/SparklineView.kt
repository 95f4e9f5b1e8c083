package io.omnidraft.sample

import android.content.Context
import android.graphics.Canvas
import android.graphics.Color
import android.graphics.Paint
import android.util.AttributeSet
import android.view.View

/** A line of numbers from 0 to 1, the newest at the right. */
class SparklineView(context: Context, attributes: AttributeSet?) : View(context, attributes) {
    private val paint = Paint(Paint.ANTI_ALIAS_FLAG).apply {
        color = Color.rgb(0x30, 0x90, 0x50)
        strokeWidth = resources.displayMetrics.density * 2
    }

    /** The numbers, the oldest first. */
    var values: List<Float> = emptyList()
        set(value) {
            field = value
            invalidate()
        }

    override fun onDraw(canvas: Canvas) {
        val step = width / (MOST - 1f)
        val start = width - step * (values.size - 1)
        for (at in 1 until values.size) {
            canvas.drawLine(start + step * (at - 1), place(values[at - 1]), start + step * at, place(values[at]), paint)
        }
    }

    private fun place(value: Float): Float = height - paint.strokeWidth - value * (height - 2 * paint.strokeWidth)

    private companion object {
        const val MOST = 60
    }
}
