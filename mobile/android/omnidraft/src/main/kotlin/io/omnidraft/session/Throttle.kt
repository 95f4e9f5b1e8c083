package io.omnidraft.session

/**
 * How much an app lets a session do while the device is warm (spec/08-phones.md, Backgrounding). No level changes the
 * text. From any thread.
 */
internal class Throttle {
    private val lock = Object()

    /** 0: nothing changes; 1: no learning; 2: also a pause of one pass's length between rounds; 3: paused. */
    @Volatile var level: Int = 0
        set(value) {
            synchronized(lock) {
                field = value.coerceIn(0, PAUSED)
                lock.notifyAll()
            }
        }

    /** Wakes who waits, to ask again whether it was cancelled. */
    fun wake() = synchronized(lock) { lock.notifyAll() }

    /** Waits between two rounds. */
    fun pause(pass: Double, isCancelled: () -> Boolean) {
        if (level < SLOWER) return
        synchronized(lock) {
            val until = System.nanoTime() + (minOf(pass, LONGEST_PAUSE) * NANOSECONDS).toLong()
            while (!isCancelled()) {
                val left = (until - System.nanoTime()) / NANOSECONDS_OF_MILLISECOND
                when {
                    level >= PAUSED -> lock.wait()
                    level < SLOWER || left <= 0 -> return
                    else -> lock.wait(left)
                }
            }
        }
    }
}

private const val SLOWER = 2
private const val PAUSED = 3
private const val LONGEST_PAUSE = 10.0 // seconds
private const val NANOSECONDS = 1e9
private const val NANOSECONDS_OF_MILLISECOND = 1_000_000L
