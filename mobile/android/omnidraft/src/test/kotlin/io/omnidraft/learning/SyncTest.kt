package io.omnidraft.learning

import com.sun.net.httpserver.HttpsConfigurator
import com.sun.net.httpserver.HttpsServer
import io.omnidraft.OmniDraftException
import io.omnidraft.PullOutcome
import io.omnidraft.PushPart
import io.omnidraft.ReleaseFolder
import io.omnidraft.ReleaseServer
import io.omnidraft.ReleaseSource
import io.omnidraft.SessionOptions
import io.omnidraft.archive.Web
import io.omnidraft.learning.online.LearningController
import io.omnidraft.models.Role
import io.omnidraft.models.placeOf
import io.omnidraft.models.readAdapter
import io.omnidraft.session.LoadedBundle
import io.omnidraft.session.Session
import io.omnidraft.support.StarterBundles
import io.omnidraft.sync.channelOfBundle
import io.omnidraft.sync.decodePush
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestInstance
import java.io.File
import java.net.InetAddress
import java.net.InetSocketAddress
import java.security.KeyStore
import javax.net.ssl.KeyManagerFactory
import javax.net.ssl.SSLContext
import javax.net.ssl.TrustManagerFactory

/** Releases that Python published: pulled, verified, compared, used, and gone back from. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
internal class SyncTest {
    private val lazyLoaded = lazy { StarterBundles.load("learning") }
    private val loaded: LoadedBundle by lazyLoaded
    private val key by lazy { File(LEARNED, "key").readBytes() }
    private val store by lazy { File(LEARNED, "store") }
    private val released by lazy { readAdapter(File(LEARNED, "released.safetensors")).digest }
    private val channel by lazy { channelOfBundle(placeOf(loaded.bundle, loaded.vocabMap)).id }

    @AfterAll
    fun close() {
        if (lazyLoaded.isInitialized()) loaded.close()
    }

    @Test
    fun aReleaseIsUsedAndGoneBackFrom() = inNewDirectory { place ->
        device(place) { session, learning ->
            val said = answers(session, 0 until 3)
            assertEquals(PullOutcome.SWITCHED, learning.pull(ReleaseFolder(store)))
            assertEquals(released, inUse(session))
            assertTrue(session.cache.size > 0, "the n-grams of the release")
            assertTrue(File(place, "cache.odc").exists())
            assertEquals(said, answers(session, 0 until 3))
            assertEquals(PullOutcome.NEWEST, learning.pull(ReleaseFolder(store)))
            learning.goBack()
            assertNull(inUse(session))
            assertEquals(PullOutcome.REFUSED_BEFORE, learning.pull(ReleaseFolder(store)))
            assertNull(inUse(session))
            val refused = assertThrows(OmniDraftException::class.java) { learning.goBack() }
            assertEquals("absent", refused.fault)
        }
    }

    @Test
    fun aReleaseIsComparedOnWhatWasRecorded() = inNewDirectory { place ->
        File(LEARNED, "traces").copyRecursively(File(place, "traces"))
        device(place) { session, learning ->
            assertEquals(PullOutcome.SWITCHED, learning.pull(ReleaseFolder(store)))
            assertEquals(released, inUse(session))
        }
    }

    @Test
    fun aReleaseThatIsNotBetterIsNotUsed() = inNewDirectory { place ->
        File(LEARNED, "traces").copyRecursively(File(place, "traces"))
        val options = options(place, File(LEARNED, "released.safetensors"))
        Session(loaded, adapter = options.adapter).use { session ->
            LearningController(session, options, key).use { learning ->
                learning.on()
                answers(session, 0 until 8)
                repeat(2) { learning.step(120.0) }
                val own = inUse(session)
                assertFalse(own == released || own == null)
                val outcome = learning.pull(ReleaseFolder(store))
                assertTrue(outcome == PullOutcome.KEPT || outcome == PullOutcome.SWITCHED)
                assertEquals(if (outcome == PullOutcome.KEPT) own else released, inUse(session))
                learning.goBack()
                assertFalse(inUse(session) == own && outcome == PullOutcome.KEPT)
            }
        }
    }

    @Test
    fun whatWasChangedIsRefusedByName() = inNewDirectory { place ->
        val changed = File(place, "store")
        val latest = File(changed, "channels/$channel/latest")
        fun fault(change: () -> Unit, ofKey: ByteArray? = key): String {
            changed.deleteRecursively()
            store.copyRecursively(changed)
            change()
            return inNewDirectory { own ->
                Session(loaded).use { session ->
                    LearningController(session, options(own), ofKey).use { learning ->
                        this@SyncTest.fault(learning, ReleaseFolder(changed)).also { assertNull(inUse(session)) }
                    }
                }
            }
        }
        val files = File(changed, "channels/$channel/files")
        assertEquals("wrong_signature", fault({ flip(latest, latest.length().toInt() - 3) }))
        assertEquals("malformed", fault({ flip(latest, 3) }))
        assertEquals("other_key", fault({}, ByteArray(32) { 7 }))
        assertEquals("missing", fault({ latest.delete() }))
        assertEquals("checksum", fault({ flip(files.listFiles().orEmpty().first { "safetensors" in it.name }, 900) }))
        assertEquals("missing", fault({ files.deleteRecursively() }))
        assertEquals("too_large", fault({ latest.appendBytes(ByteArray(4096)) }))
    }

    @Test
    fun anUnsignedPullAfterASignedOneIsRefused() = inNewDirectory { place ->
        device(place) { _, learning -> learning.pull(ReleaseFolder(store)) }
        Session(loaded).use { session ->
            LearningController(session, options(place), null).use { learning ->
                val refused = assertThrows(OmniDraftException::class.java) { learning.pull(ReleaseFolder(store)) }
                assertEquals("unsigned", refused.fault)
            }
        }
    }

    @Test
    fun aServerIsReadOverHttps() = inNewDirectory { place ->
        val tls = selfSigned(File(place, "key.p12"))
        val server = HttpsServer.create(InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0)
        server.httpsConfigurator = HttpsConfigurator(tls)
        server.createContext("/store/") { exchange ->
            exchange.use {
                val file = File(store, it.requestURI.path.removePrefix("/store/"))
                it.sendResponseHeaders(if (file.isFile) 200 else 404, if (file.isFile) file.length() else -1)
                if (file.isFile) it.responseBody.write(file.readBytes())
            }
        }
        server.start()
        try {
            val address = "https://localhost:${server.address.port}/store"
            device(place) { session, learning ->
                assertEquals(PullOutcome.SWITCHED, learning.pull(ReleaseServer(address, Web(tls.socketFactory, 5))))
                assertEquals(released, inUse(session))
                val other = ReleaseServer("$address/other", Web(tls.socketFactory, 5))
                assertEquals("missing", fault(learning, other))
                server.stop(0)
                assertEquals("unreachable", fault(learning, ReleaseServer(address, Web(tls.socketFactory, 1))))
                assertEquals(released, inUse(session))
            }
        } finally {
            server.stop(0)
        }
    }

    @Test
    fun aPushHoldsWhatWasChosen() = inNewDirectory { place ->
        device(place) { session, learning ->
            learning.on()
            answers(session, 0 until 8)
            learning.step(120.0)
            val out = File(place, "out")
            val files = learning.writePush(out, "phone-1", setOf(PushPart.ADAPTER, PushPart.CACHE))
            assertEquals(File(out, "channels/$channel/devices/phone-1/push"), files.last())
            val push = decodePush(files.last().readBytes())
            assertEquals(emptyList<Any>(), push.traces)
            assertTrue(push.accepted > 0)
            val names = files.dropLast(1).map { it.name.substringBefore('.') }
            assertEquals(listOf(push.adapter?.sha256, push.cache?.sha256), names)
            assertEquals(inUse(session), readAdapter(files[0]).digest)
            val all = learning.writePush(out, "phone-1", PushPart.values().toSet())
            assertEquals(1, decodePush(all.last().readBytes()).traces.size)
        }
    }

    private fun device(place: File, run: (Session, LearningController) -> Unit) = Session(loaded).use { session ->
        LearningController(session, options(place), key).use { run(session, it) }
    }

    private fun options(place: File, adapter: File? = null) = SessionOptions(
        cache = File(place, "cache.odc"), traces = File(place, "traces"), adapter = adapter,
        learned = File(place, "learned"),
    )

    private fun inUse(session: Session): String? = session.adapters[Role.DRAFTER]?.digest

    private fun fault(learning: LearningController, source: ReleaseSource): String =
        assertThrows(OmniDraftException::class.java) { learning.pull(source) }.fault

    private fun flip(file: File, at: Int) {
        val data = file.readBytes()
        data[at] = (data[at].toInt() xor 1).toByte()
        file.writeBytes(data)
    }

    /** A key of this test, and a context that has it and trusts nothing else. */
    private fun selfSigned(keys: File): SSLContext {
        val command = listOf(
            File(System.getProperty("java.home"), "bin/keytool").path, "-genkeypair", "-keystore", keys.path,
            "-storetype", "PKCS12", "-storepass", "password", "-alias", "test", "-keyalg", "EC", "-validity", "2",
            "-dname", "CN=localhost", "-ext", "san=dns:localhost",
        )
        val made = ProcessBuilder(command).redirectErrorStream(true).start()
        val said = made.inputStream.readBytes()
        check(made.waitFor() == 0) { String(said) }
        val own = KeyStore.getInstance("PKCS12").apply { keys.inputStream().use { load(it, "password".toCharArray()) } }
        val known = KeyStore.getInstance("PKCS12").apply { load(null, null) }
        known.setCertificateEntry("test", own.getCertificate("test"))
        val keyManagers = KeyManagerFactory.getInstance("PKIX").apply { init(own, "password".toCharArray()) }
        val trustManagers = TrustManagerFactory.getInstance("PKIX").apply { init(known) }
        return SSLContext.getInstance("TLS").apply { init(keyManagers.keyManagers, trustManagers.trustManagers, null) }
    }
}
