package io.omnidraft.bundle

import io.omnidraft.SettingException
import io.omnidraft.device.StateDirectory
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File
import java.nio.file.Files
import java.nio.file.StandardCopyOption
import java.security.Key
import java.security.KeyFactorySpi
import java.security.KeyPairGenerator
import java.security.PrivateKey
import java.security.Provider
import java.security.PublicKey
import java.security.Security
import java.security.spec.InvalidKeySpecException
import java.security.spec.KeySpec

/** Bundles that are signed, that change, and that hold what they must not. */
class OpenBundleTest {
    private val pair = KeyPairGenerator.getInstance("Ed25519").generateKeyPair()
    private val key = readPublicKey(pair.public.encoded)

    private fun inBundle(run: (File) -> Unit) = inDirectory { folder ->
        val place = File(folder, "bundle").also { it.mkdirs() }
        writeFiles(place)
        File(place, MANIFEST).writeBytes(fullManifest())
        run(place)
    }

    private fun sign(place: File, by: PrivateKey = pair.private, id: String = keyId(key)) {
        val signer = java.security.Signature.getInstance("Ed25519")
        signer.initSign(by)
        signer.update(File(place, MANIFEST).readBytes())
        File(place, SIGNATURE).writeBytes(encode(Signature(id, signer.sign())))
    }

    @Test
    fun `a signed bundle opens with its key, and only with it`() = inBundle { place ->
        assertEquals("unsigned", faultOf { openBundle(place, key) })
        sign(place)
        assertEquals(keyId(key), openBundle(place, key).signedBy)
        assertEquals(keyId(key), openBundle(place, pair.public.encoded).signedBy)
        assertNull(openBundle(place).signedBy)
        val other = KeyPairGenerator.getInstance("Ed25519").generateKeyPair()
        assertEquals("other_key", faultOf { openBundle(place, readPublicKey(other.public.encoded)) })
        sign(place, other.private)
        assertEquals("wrong_signature", faultOf { openBundle(place, key) })
        File(place, SIGNATURE).writeText("")
        assertEquals("malformed", faultOf { openBundle(place, key) })
        assertThrows(SettingException::class.java) { openBundle(place, ByteArray(31)) }
    }

    @Test
    fun `the signature is checked before the manifest is read, and a key hashes all files`() = inBundle { place ->
        File(place, MANIFEST).writeText("no JSON")
        assertEquals("unsigned", faultOf { openBundle(place, key) })
        sign(place)
        assertEquals("unreadable", faultOf { openBundle(place, key) })
    }

    @Test
    fun `a signature is checked alike whatever the platform's providers can do`() = inBundle { place ->
        sign(place)
        val providers = Security.getProviders("Signature.Ed25519").orEmpty()
        assertTrue(providers.isNotEmpty())
        val places = providers.map { each -> Security.getProviders().indexOf(each) + 1 }
        providers.forEach { Security.removeProvider(it.name) }
        try {
            for (other in listOf(null, KeyStoreAlone())) {
                other?.let { Security.insertProviderAt(it, 1) }
                assertEquals(keyId(key), openBundle(place, key).signedBy)
                val manifest = File(place, MANIFEST)
                val content = manifest.readBytes()
                manifest.appendText(" ")
                assertEquals("wrong_signature", faultOf { openBundle(place, key) })
                manifest.writeBytes(content)
            }
        } finally {
            Security.removeProvider(KEY_STORE)
            providers.zip(places).forEach { (each, at) -> Security.insertProviderAt(each, at) }
        }
        openBundle(place, key)
    }

    @Test
    fun `a link, an absent file and one that changes are refused`() = inBundle { place ->
        val bundle = openBundle(place)
        checkUnchanged(bundle.places, bundle.stamps)
        val graph = bundle.file(bundle.target.graph)
        val content = graph.readBytes()
        graph.delete()
        assertEquals("checksum", faultOf { checkUnchanged(bundle.places, bundle.stamps) })
        assertEquals("missing", faultOf { openBundle(place) })
        val elsewhere = File(place.parentFile, "elsewhere").also { it.writeBytes(content) }
        Files.createSymbolicLink(graph.toPath(), elsewhere.toPath())
        assertEquals("outside", faultOf { openBundle(place) })
        graph.delete()
        graph.mkdirs()
        assertEquals("missing", faultOf { openBundle(place) })
        graph.delete()
        graph.writeBytes(content)
        assertEquals("checksum", faultOf { checkUnchanged(bundle.places, bundle.stamps) })
        openBundle(place)
    }

    @Test
    fun `a file that was written in place is refused, and one that was replaced or removed is not`() = inBundle { place ->
        val bundle = openBundle(place)
        val graph = bundle.file(bundle.target.graph)
        val other = File(place.parentFile, "other").also { it.writeText("replaced") }
        Files.move(other.toPath(), graph.toPath(), StandardCopyOption.REPLACE_EXISTING)
        refuseRewritten(bundle.places, bundle.stamps)
        graph.delete()
        refuseRewritten(bundle.places, bundle.stamps)
        File(place, "vocab_map.safetensors").writeBytes(ByteArray(0))
        assertEquals("checksum", faultOf { refuseRewritten(bundle.places, bundle.stamps) })
    }

    @Test
    fun `stamps hash nothing where nothing changed, and everything where something did`() = inBundle { place ->
        val state = StateDirectory(File(place.parentFile, "state"))
        val files = place.walk().filter { it.isFile }.toList()
        openBundle(place, state = state) // the files changed less than 3 s ago
        assertNull(File(state.root, "checked").list())
        val stamps = openBundle(place).stamps
        assertTrue(io.omnidraft.device.rememberCheck(state, place, openBundle(place).seal, stamps, Long.MAX_VALUE))
        assertEquals(stamps, openBundle(place, verify = Verify.STAMP, state = state).stamps)
        val file = files.first { it.name == "vocab_map.safetensors" }
        file.writeText(file.readText().uppercase())
        assertEquals("checksum", faultOf { openBundle(place, verify = Verify.STAMP, state = state) })
    }

    @Test
    fun `a template is read once, and its bytes are those that were hashed`() = inBundle { place ->
        val bundle = openBundle(place)
        val name = "target/chat_template.jinja"
        assertEquals(name, String(checkedBytes(bundle, name, 1 shl 10)))
        assertEquals("unreadable", faultOf { checkedBytes(bundle, name, 3) })
        File(place, name).writeText(name.uppercase())
        assertEquals("checksum", faultOf { checkedBytes(bundle, name, 1 shl 10) })
        assertEquals("no_hash", faultOf { checkedBytes(bundle, "note", 1 shl 10) })
    }

    @Test
    fun `a graph is looked at before an engine gets it`() = inBundle { place ->
        val bundle = openBundle(place)
        assertEquals("outside", faultOf { checkedGraph(bundle, bundle.target.graph) }) // its content is its name
        File(place, bundle.target.graph).writeBytes(byteArrayOf())
        assertEquals("outside", faultOf { checkedGraph(bundle, bundle.target.graph) })
        File(place, bundle.target.graph).writeBytes(byteArrayOf(8, 8)) // a version and nothing else
        assertEquals(File(place, bundle.target.graph), checkedGraph(bundle, bundle.target.graph))
    }
}

private const val KEY_STORE = "KeyStoreAlone"

/** Names Ed25519 and takes no key of others, as a key store of Android does. */
private class KeyStoreAlone : Provider(KEY_STORE, "1", "for a test") {
    init {
        put("KeyFactory.Ed25519", RefusingKeys::class.java.name)
    }
}

/** Made by the provider. */
class RefusingKeys : KeyFactorySpi() {
    override fun engineGeneratePublic(spec: KeySpec): PublicKey = throw InvalidKeySpecException("a key of others")

    override fun engineGeneratePrivate(spec: KeySpec): PrivateKey = throw InvalidKeySpecException("a key of others")

    override fun <T : KeySpec> engineGetKeySpec(key: Key, type: Class<T>): T = throw InvalidKeySpecException("none")

    override fun engineTranslateKey(key: Key): Key = throw InvalidKeySpecException("none")
}
