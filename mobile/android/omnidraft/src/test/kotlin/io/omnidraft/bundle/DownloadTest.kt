package io.omnidraft.bundle

import com.sun.net.httpserver.HttpExchange
import com.sun.net.httpserver.HttpsConfigurator
import com.sun.net.httpserver.HttpsServer
import io.omnidraft.ArchiveException
import io.omnidraft.BundleSource
import io.omnidraft.SettingException
import io.omnidraft.archive.Web
import io.omnidraft.archive.install
import io.omnidraft.archive.statusOf
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.sha256
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeAll
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestInstance
import java.io.File
import java.io.IOException
import java.net.InetAddress
import java.net.InetSocketAddress
import java.net.URL
import java.nio.file.Files
import java.security.KeyStore
import java.security.cert.Certificate
import java.util.concurrent.CountDownLatch
import java.util.concurrent.Executors
import javax.net.ssl.HttpsURLConnection
import javax.net.ssl.KeyManagerFactory
import javax.net.ssl.SSLContext
import javax.net.ssl.TrustManagerFactory
import kotlin.concurrent.thread

/** Downloads from a real HTTPS server on this machine, which does what servers should not. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class DownloadTest {
    private val whole = phoneArchive()
    private val sum = hexOf(sha256(whole))
    private val keys = Files.createTempDirectory("keys").toFile()
    private val threads = Executors.newCachedThreadPool()
    private lateinit var tls: SSLContext
    private lateinit var server: HttpsServer
    private val web by lazy { Web(tls.socketFactory, seconds = 60) }
    private val hasty by lazy { Web(tls.socketFactory, seconds = 3) }

    @BeforeAll
    fun start() {
        tls = selfSigned(File(keys, "key.p12"))
        server = HttpsServer.create(InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0)
        server.httpsConfigurator = HttpsConfigurator(tls)
        server.executor = threads
        server.start()
    }

    @AfterAll
    fun stop() {
        server.stop(0)
        threads.shutdownNow()
        keys.deleteRecursively()
    }

    /** A key of this test, and a context that has it and trusts nothing else. */
    private fun selfSigned(store: File): SSLContext {
        val command = listOf(
            File(System.getProperty("java.home"), "bin/keytool").path, "-genkeypair", "-keystore", store.path,
            "-storetype", "PKCS12", "-storepass", "password", "-alias", "test", "-keyalg", "EC", "-validity", "2",
            "-dname", "CN=localhost", "-ext", "san=dns:localhost",
        )
        val made = ProcessBuilder(command).redirectErrorStream(true).start()
        val said = made.inputStream.readBytes()
        check(made.waitFor() == 0) { String(said) }
        val own = KeyStore.getInstance("PKCS12")
        store.inputStream().use { own.load(it, "password".toCharArray()) }
        val known = KeyStore.getInstance("PKCS12").apply { load(null, null) }
        known.setCertificateEntry("test", own.getCertificate("test"))
        val keyManagers = KeyManagerFactory.getInstance("PKIX").apply { init(own, "password".toCharArray()) }
        val trustManagers = TrustManagerFactory.getInstance("PKIX").apply { init(known) }
        return SSLContext.getInstance("TLS").apply { init(keyManagers.keyManagers, trustManagers.trustManagers, null) }
    }

    private var paths = 0

    /** The address of a path that answers so; an answer that fails is a connection that was cut. */
    private fun address(answer: (HttpExchange) -> Unit): String {
        val path = "/${paths++}"
        server.createContext(path) { exchange ->
            exchange.use {
                try {
                    answer(it)
                } catch (_: IOException) {
                    return@use // the reader gave up, as some tests want
                } catch (_: InterruptedException) {
                    return@use // the server is stopped
                }
            }
        }
        return "https://localhost:${server.address.port}$path"
    }

    private fun source(bytes: Int = whole.size, hash: String = sum, answer: (HttpExchange) -> Unit) =
        BundleSource.Download(address(answer), bytes.toLong(), hash)

    private fun faultOf(source: BundleSource, into: File, how: Web = web): ArchiveException =
        assertThrows(ArchiveException::class.java) { install(source, into, web = how) }

    private fun send(exchange: HttpExchange, data: ByteArray, status: Int = 200, length: Int = data.size) {
        exchange.sendResponseHeaders(status, length.toLong())
        exchange.responseBody.write(data)
        exchange.responseBody.flush()
    }

    private fun parts(place: File): List<File> = place.listFiles()!!.filter { it.name.endsWith(".part") }

    @Test
    fun `a connection that was cut goes on where it ended, and needs no network again`() = inDirectory { place ->
        val asked = ArrayList<String?>()
        val piece = whole.size * 2 / 5
        val source = source { exchange ->
            val range = exchange.requestHeaders.getFirst("Range")
            asked.add(range)
            val begin = range?.removePrefix("bytes=")?.removeSuffix("-")?.toInt() ?: 0
            val end = if (asked.size == 3) whole.size else begin + piece
            exchange.responseHeaders.set("Content-Range", "bytes $begin-${whole.size - 1}/${whole.size}")
            send(exchange, whole.copyOfRange(begin, end), if (range == null) 200 else 206, whole.size - begin)
        }
        val into = File(place, "out")
        for (held in listOf(piece.toLong(), 2L * piece)) {
            assertEquals("unreadable", faultOf(source, into).fault)
            assertEquals(held, parts(place).single().length())
            assertFalse(into.exists())
        }
        val told = ArrayList<Long>()
        assertEquals(into, install(source, into, web = web) { done, all -> told.add(done * 1000 / all) })
        assertEquals(listOf(null, "bytes=$piece-", "bytes=${2 * piece}-"), asked)
        assertTrue(told.first() > 1000 / 3 && told.last() == 1000L && told == told.sorted(), "$told")
        assertSameTree(install(BundleSource.Stream(whole.inputStream()), File(place, "expected")), into)
        assertEquals(setOf("out", "expected", ".out.unpacked"), place.list()!!.toSet())
        install(source, into, web = web)
        assertEquals(3, asked.size)
    }

    @Test
    fun `a server that sends the whole file again is read from its beginning`() = inDirectory { place ->
        var times = 0
        val source = source { send(it, whole.copyOf(if (times++ == 0) 1000 else whole.size), length = whole.size) }
        assertEquals("unreadable", faultOf(source, File(place, "out")).fault)
        openBundle(install(source, File(place, "out"), web = web))
        assertEquals(2, times)
    }

    @Test
    fun `a server that sends byte by byte is given up, in the header too`() = inDirectory { place ->
        val slow = source { exchange ->
            exchange.sendResponseHeaders(200, whole.size.toLong())
            for (byte in whole) {
                exchange.responseBody.write(byte.toInt())
                exchange.responseBody.flush()
                Thread.sleep(20)
            }
        }
        openBundle(install(source { send(it, whole) }, File(place, "first"), web = web)) // the first handshake is slow
        assertEquals("unreadable", faultOf(slow, File(place, "out"), Web(tls.socketFactory)).fault)
        assertTrue(parts(place).single().length() in 1 until whole.size)
        val silent = source { Thread.sleep(60_000) }
        assertEquals("unreadable", faultOf(silent, File(place, "silent"), hasty).fault)
        val (address, close) = endlessHeader()
        val header = BundleSource.Download(address, whole.size.toLong(), sum)
        assertEquals("unreadable", faultOf(header, File(place, "header"), hasty).fault)
        close()
    }

    /** A server that never ends its header. */
    private fun endlessHeader(): Pair<String, () -> Unit> {
        val listening = tls.serverSocketFactory.createServerSocket(0, 1, InetAddress.getLoopbackAddress())
        val ended = CountDownLatch(1)
        thread {
            try {
                listening.accept().use { client ->
                    client.getOutputStream().write("HTTP/1.1 200 OK\r\nX: ".toByteArray())
                    while (ended.count > 0) {
                        client.getOutputStream().write('x'.code)
                        Thread.sleep(50)
                    }
                }
            } catch (_: IOException) {
                ended.countDown() // the reader gave up
            }
        }
        val close = {
            ended.countDown()
            listening.close()
        }
        return "https://localhost:${listening.localPort}/" to close
    }

    @Test
    fun `not a byte more than the archive has is taken`() = inDirectory { place ->
        val into = File(place, "out")
        assertEquals("size", faultOf(source { send(it, whole + 0) }, into).fault)
        val endless = source { exchange ->
            exchange.sendResponseHeaders(200, 0) // no length: in chunks
            while (true) exchange.responseBody.write(whole)
        }
        assertEquals("size", faultOf(endless, into).fault)
        val other = source { exchange ->
            exchange.responseHeaders.set("Content-Range", "bytes 5-9/10")
            send(exchange, ByteArray(5), 206)
        }
        assertEquals("size", faultOf(other, into).fault)
        assertEquals(emptyList<String>(), place.list()!!.toList())
    }

    @Test
    fun `another file is refused and not kept`() = inDirectory { place ->
        val into = File(place, "out")
        val changed = whole.copyOf().also { it[70_000] = 1 }
        assertEquals("checksum", faultOf(source { send(it, changed) }, into).fault)
        assertEquals(emptyList<String>(), place.list()!!.toList())
        val noArchive = ByteArray(1000)
        val named = source(1000, hexOf(sha256(noArchive))) { send(it, noArchive) }
        assertEquals("not_an_archive", faultOf(named, into).fault)
        assertEquals(emptyList<String>(), place.list()!!.toList())
        File(into, "mine").also { it.parentFile.mkdirs() }.writeText("")
        assertEquals("unwritable", faultOf(source { send(it, whole) }, into).fault)
        assertEquals(whole.size.toLong(), parts(place).single().length(), "it is right, and may be asked for again")
    }

    @Test
    fun `a second download to a place is refused until the first has ended`() = inDirectory { place ->
        val source = source { send(it, whole) }
        val into = File(place, "out")
        val faults = ArrayList<String>()
        install(source, into, web = web) { _, _ -> faults.add(faultOf(source, into).fault) }
        assertEquals(setOf("in_use"), faults.toSet())
        openBundle(into)
        assertEquals(setOf("out", ".out.unpacked"), place.list()!!.toSet())
        into.deleteRecursively()
        openBundle(install(source, into, web = web))
    }

    @Test
    fun `an app without the permission for the network is told so`() {
        val refused = assertThrows(IOException::class.java) { statusOf(Forbidden(), 1) }
        assertTrue("INTERNET" in refused.message.orEmpty(), refused.toString())
    }

    /** A connection of Android without the permission. */
    private class Forbidden : HttpsURLConnection(URL("https://localhost/")) {
        override fun getResponseCode(): Int = throw SecurityException("Permission denied (missing INTERNET permission?)")
        override fun connect() = Unit
        override fun disconnect() = Unit
        override fun usingProxy() = false
        override fun getCipherSuite() = ""
        override fun getLocalCertificates(): Array<Certificate> = emptyArray()
        override fun getServerCertificates(): Array<Certificate> = emptyArray()
    }

    @Test
    fun `a server that has nothing, or that nobody vouches for, is named`() = inDirectory { place ->
        val absent = faultOf(source { it.sendResponseHeaders(404, -1) }, File(place, "out"))
        assertTrue(absent.fault == "unreadable" && "404" in absent.message.orEmpty(), absent.toString())
        assertEquals("unreadable", faultOf(source { send(it, whole) }, File(place, "out"), Web()).fault)
        for (address in listOf("https://localhost:1/", "https://", "https:///x", "https://localhost:x/", "https:// /")) {
            val nobody = BundleSource.Download(address, 1, sum)
            assertEquals("unreadable", faultOf(nobody, File(place, "out")).fault, address)
        }
    }

    @Test
    fun `an address without encryption, a wrong size and a wrong hash are refused`() {
        for ((address, bytes, hash) in listOf(
            Triple("http://localhost/", 1L, sum),
            Triple("file:///etc/hosts", 1L, sum),
            Triple("https://localhost/", 0L, sum),
            Triple("https://localhost/", 1L, sum.uppercase() + "0"),
        )) {
            assertThrows(SettingException::class.java) { BundleSource.Download(address, bytes, hash) }
        }
    }
}
