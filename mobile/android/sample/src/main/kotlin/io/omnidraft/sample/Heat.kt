package io.omnidraft.sample

import android.annotation.TargetApi
import android.app.Activity
import android.os.PowerManager
import java.util.concurrent.Executor

/** Listens to the thermal status; only for devices of level 29 and later, which have the interface. */
@TargetApi(Heat.LEAST_LEVEL)
class Heat(activity: Activity, private val tell: (Int) -> Unit) {
    private val power = activity.getSystemService(Activity.POWER_SERVICE) as PowerManager
    private val main = Executor { activity.runOnUiThread(it) }
    private val listener = PowerManager.OnThermalStatusChangedListener { tell(it) }

    /** Tells the status now and each time that it changes. */
    fun start() = power.addThermalStatusListener(main, listener)

    /** Tells nothing more. */
    fun stop() = power.removeThermalStatusListener(listener)

    companion object {
        /** The first level with the interface. */
        const val LEAST_LEVEL: Int = 29
    }
}
