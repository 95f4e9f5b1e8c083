package io.omnidraft.sample

import android.annotation.TargetApi
import android.app.Activity
import android.os.Build
import android.os.Handler
import android.os.Looper
import android.os.PowerManager
import java.util.concurrent.Executor

private const val FORECAST_SECONDS = 10 // also between two questions: Android answers no sooner
private const val FORECAST_LEVEL = 30 // the first with a forecast
private const val NEARLY = 0.9f // of the heat at which Android throttles
private const val MODERATE = 2
private const val SEVERE = 3

/**
 * Listens to the thermal status, and asks what it will be, so that the work falls before the clock does; only for devices of
 * level 29 and later, which have the interface.
 */
@TargetApi(Heat.LEAST_LEVEL)
class Heat(activity: Activity, private val tell: (Int) -> Unit) {
    private val power = activity.getSystemService(Activity.POWER_SERVICE) as PowerManager
    private val main = Executor { activity.runOnUiThread(it) }
    private val handler = Handler(Looper.getMainLooper())
    private val question = Runnable { ask() }
    private var now = 0
    private var soon = 0
    private val listener = PowerManager.OnThermalStatusChangedListener {
        now = it
        tell(maxOf(now, soon))
    }

    /** Tells the status now and each time that it changes, or will. */
    fun start() {
        power.addThermalStatusListener(main, listener)
        if (Build.VERSION.SDK_INT >= FORECAST_LEVEL) ask()
    }

    /** Tells nothing more. */
    fun stop() {
        handler.removeCallbacks(question)
        power.removeThermalStatusListener(listener)
    }

    private fun ask() {
        val headroom = power.getThermalHeadroom(FORECAST_SECONDS) // 1 is severe; NaN where the device cannot tell
        soon = if (headroom >= 1f) SEVERE else if (headroom >= NEARLY) MODERATE else 0
        tell(maxOf(now, soon))
        handler.postDelayed(question, FORECAST_SECONDS * 1000L)
    }

    companion object {
        /** The first level with the interface. */
        const val LEAST_LEVEL: Int = 29
    }
}
