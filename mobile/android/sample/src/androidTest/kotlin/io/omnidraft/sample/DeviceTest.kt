package io.omnidraft.sample

import androidx.test.platform.app.InstrumentationRegistry
import io.omnidraft.BundleSource
import io.omnidraft.GenerationConfig
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import java.io.File
import java.util.concurrent.Executor

/** What only a device or an emulator shows: the engine's native library, the app's storage, a bundle among the assets. */
class DeviceTest {
    @Test
    fun theBundleInTheAppWritesTheSameTextWithAndWithoutDrafts() {
        val context = InstrumentationRegistry.getInstrumentation().targetContext
        val folder = File(context.cacheDir, "device-test")
        folder.deleteRecursively()
        val engine = LibraryEngine(
            File(folder, "private"), File(folder, "files"), GenerationConfig(maxNewTokens = 32, numDraftTokens = 4),
        )
        val texts = Speed.entries.map { speed ->
            val choice = Choice(speed.name) { BundleSource.Stream(context.assets.open("starter-a.zip")) }
            engine.open(choice) { _, _ -> }.use { talk ->
                talk.answer("How many legs do 3 cats have?", speed, Executor { it.run() }) {}.text
            }
        }
        assertTrue(texts[0].isNotEmpty())
        assertEquals(texts[0], texts[1])
    }
}
