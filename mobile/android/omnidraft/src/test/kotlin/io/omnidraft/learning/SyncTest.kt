package io.omnidraft.learning

import io.omnidraft.OmniDraftException
import io.omnidraft.PullOutcome
import io.omnidraft.PushPart
import io.omnidraft.bundle.inDirectory
import io.omnidraft.learning.online.LearningController
import io.omnidraft.models.Role
import io.omnidraft.models.decodeAdapter
import io.omnidraft.models.placeOf
import io.omnidraft.models.readAdapter
import io.omnidraft.session.LoadedBundle
import io.omnidraft.session.Session
import io.omnidraft.support.StarterBundles
import io.omnidraft.sync.SignedKind
import io.omnidraft.sync.channelOfBundle
import io.omnidraft.sync.readSigned
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestInstance
import java.io.File

/** Releases that Python published: pulled, verified, compared, used, and gone back from. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
internal class SyncTest {
    private val lazyLoaded = lazy { StarterBundles.load("learning") }
    private val loaded: LoadedBundle by lazyLoaded
    private val key by lazy { File(LEARNED, "key").readBytes() }
    private val release by lazy { File(LEARNED, "store/$channel/release").readBytes() }
    private val released by lazy { readAdapter(File(LEARNED, "released.safetensors")).digest }
    private val channel by lazy { channelOfBundle(placeOf(loaded.bundle, loaded.vocabMap)).id }

    @AfterAll
    fun close() {
        if (lazyLoaded.isInitialized()) loaded.close()
    }

    @Test
    fun aReleaseIsUsedAndGoneBackFrom() = inDirectory { place ->
        device(place) { session, learning ->
            val said = answers(session, 0 until 3)
            assertEquals(PullOutcome.SWITCHED, learning.pull(release))
            assertEquals(released, inUse(session))
            assertTrue(session.cache.size > 0, "the n-grams of the release")
            assertTrue(File(place, "cache.odc").exists())
            assertEquals(said, answers(session, 0 until 3))
            assertEquals(PullOutcome.NEWEST, learning.pull(release))
            learning.goBack()
            assertNull(inUse(session))
            assertEquals(PullOutcome.REFUSED_BEFORE, learning.pull(release))
            assertNull(inUse(session))
            val refused = assertThrows(OmniDraftException::class.java) { learning.goBack() }
            assertEquals("absent", refused.fault)
        }
    }

    @Test
    fun aReleaseIsComparedOnWhatWasRecorded() = inDirectory { place ->
        File(LEARNED, "traces").copyRecursively(File(place, "traces"))
        device(place) { session, learning ->
            assertEquals(PullOutcome.SWITCHED, learning.pull(release))
            assertEquals(released, inUse(session))
        }
    }

    @Test
    fun aReleaseThatIsNotBetterIsNotUsed() = inDirectory { place ->
        File(LEARNED, "traces").copyRecursively(File(place, "traces"))
        val options = optionsIn(place, File(LEARNED, "released.safetensors"))
        withLearning(loaded, options, key) { session, learning ->
            learning.on()
            answers(session, 0 until 8)
            repeat(2) { learning.step(120.0) }
            val own = inUse(session)
            assertFalse(own == released || own == null)
            val outcome = learning.pull(release)
            assertTrue(outcome == PullOutcome.KEPT || outcome == PullOutcome.SWITCHED)
            assertEquals(if (outcome == PullOutcome.KEPT) own else released, inUse(session))
            learning.goBack()
            assertFalse(inUse(session) == own && outcome == PullOutcome.KEPT)
        }
    }

    @Test
    fun whatWasChangedIsRefusedByName() = inDirectory { place ->
        fun fault(data: ByteArray, ofKey: ByteArray? = key): String {
            var fault = "not refused"
            withLearning(loaded, optionsIn(place), ofKey) { _, learning ->
                fault = assertThrows(OmniDraftException::class.java) { learning.pull(data) }.fault
            }
            return fault
        }
        val digit = (150 until 200).first { release[it].toInt().toChar().isDigit() } // of the signature; it stays one
        assertEquals("wrong_signature", fault(flipped(digit)))
        assertEquals("malformed", fault(flipped(3)))
        assertEquals("other_key", fault(release, ByteArray(32) { 7 }))
        assertEquals("checksum", fault(flipped(release.size - 9)))
        assertEquals("size", fault(release + 0))
        assertEquals("", fault(release, null), "without a key no release is taken")
    }

    @Test
    fun aPushHoldsWhatWasChosen() = inDirectory { place ->
        device(place) { session, learning ->
            learning.on()
            answers(session, 0 until 8)
            learning.step(120.0)
            val file = learning.push(setOf(PushPart.ADAPTER, PushPart.CACHE))
            val push = readSigned(file.data, SignedKind.PUSH, null)
            assertEquals("$channel/${push.record.key}.push", file.name)
            assertEquals("$channel/release", learning.releaseName)
            assertTrue(push.traces.isEmpty() && push.cache != null && push.record.accepted > 0)
            assertEquals(inUse(session), push.adapter?.let { decodeAdapter(it).digest })
            val all = learning.push(PushPart.values().toSet())
            assertEquals(file.name, all.name, "one device, one key")
            assertEquals(1, readSigned(all.data, SignedKind.PUSH, null).traces.size)
        }
    }

    private fun device(place: File, run: (Session, LearningController) -> Unit) =
        withLearning(loaded, optionsIn(place), key, run = run)

    private fun inUse(session: Session): String? = session.adapters[Role.DRAFTER]?.digest

    private fun flipped(at: Int): ByteArray = release.copyOf().also { it[at] = (it[at].toInt() xor 1).toByte() }
}
