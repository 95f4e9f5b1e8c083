package io.omnidraft.sample

import android.app.Application
import android.os.Handler
import android.os.Looper
import android.os.SystemClock
import java.io.File
import java.util.concurrent.Executor
import java.util.concurrent.Executors

/** Holds the presenter, so that it outlives the screens of a rotation. */
class SampleApp : Application() {
    /** The logic of the screen. */
    val presenter: Presenter by lazy {
        val main = Handler(Looper.getMainLooper())
        Presenter(
            LibraryEngine(File(noBackupFilesDir, "omnidraft"), filesDir),
            Executors.newSingleThreadExecutor(),
            Executor { main.post(it) },
            { SystemClock.uptimeMillis() / MILLIS }, // stops in sleep, as an answer does
        )
    }

    @Suppress("DEPRECATION") // from API level 34 on the system tells the app nothing while it is in the foreground
    override fun onTrimMemory(level: Int) {
        super.onTrimMemory(level)
        val isBehind = level >= TRIM_MEMORY_BACKGROUND // comes to each app that leaves the foreground, from level 34 on
        val isRunningLow = level == TRIM_MEMORY_RUNNING_LOW || level == TRIM_MEMORY_RUNNING_CRITICAL
        if (isRunningLow || isBehind) presenter.lowMemory(isBehind)
    }

    private companion object {
        const val MILLIS = 1000.0
    }
}
