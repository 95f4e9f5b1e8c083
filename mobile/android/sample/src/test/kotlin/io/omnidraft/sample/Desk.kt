package io.omnidraft.sample

import io.omnidraft.BundleSource
import io.omnidraft.GenerationConfig
import org.junit.jupiter.api.Assumptions.assumeTrue
import java.io.File
import java.util.concurrent.Executor
import java.util.concurrent.Executors
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit

/** A presenter with the real library and a starter bundle, and a main thread whose loop the test runs itself. */
class Desk(folder: File, tokens: Int = 24) : AutoCloseable {
    private val tasks = LinkedBlockingQueue<Runnable>()
    private val worker = Executors.newSingleThreadExecutor()

    /** All that the screen was told, in order. */
    val told = ArrayList<Screen>()

    val presenter = Presenter(
        // A fixed draft length: what pays depends on how fast this machine is now.
        LibraryEngine(
            File(folder, "private"), File(folder, "files"), GenerationConfig(maxNewTokens = tokens, numDraftTokens = 4),
        ),
        worker,
        Executor { tasks.add(it) },
        { System.nanoTime() / 1e9 },
    )

    val screen: Screen get() = presenter.screen

    /** Runs the main thread's tasks until the screen is so. */
    fun until(wanted: (Screen) -> Boolean): Screen {
        while (!wanted(screen)) {
            val task = tasks.poll(LONGEST_SECONDS, TimeUnit.SECONDS) ?: error("nothing more happens: $screen")
            task.run()
        }
        return screen
    }

    /** Runs the main thread's tasks until what the worker was given is done. */
    fun settle(): Screen {
        val last = worker.submit {}
        while (!last.isDone) tasks.poll(1, TimeUnit.MILLISECONDS)?.run()
        while (true) (tasks.poll() ?: return screen).run()
    }

    /** Attaches a screen that writes down what it is told. */
    fun watch(): Desk = also { presenter.attach { told.add(it) } }

    /** Opens the starter bundle. */
    fun open(): Desk = also {
        val archive = ARCHIVE
        presenter.open(Choice("starter") { BundleSource.Archive(archive) })
        until { it.phase == Phase.READY || it.phase == Phase.EMPTY }
    }

    /** The text of a whole answer. */
    fun answer(message: String, speed: Speed = Speed.SPECULATIVE): String {
        val before = screen.text.length
        presenter.send(message, speed)
        return until { it.phase == Phase.READY }.text.substring(before).substringAfter('\n', "").removePrefix("> $message\n")
    }

    override fun close() {
        presenter.leave()
        settle()
        presenter.open(Choice("none") { throw java.io.IOException("closed") }) // closes the bundle
        settle()
        worker.shutdown()
    }

    companion object {
        const val LONGEST_SECONDS = 60L
        val ARCHIVE: File by lazy {
            val bundles = System.getProperty("omnidraft.bundles")
            assumeTrue(bundles != null, "omnidraft.bundles is not set; scripts/android/bundles.sh makes the bundles")
            File(bundles, "starter-a.zip")
        }
    }
}
