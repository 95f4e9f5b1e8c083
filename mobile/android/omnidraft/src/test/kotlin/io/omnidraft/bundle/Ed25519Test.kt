package io.omnidraft.bundle

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.security.KeyFactory
import java.security.KeyPair
import java.security.KeyPairGenerator
import java.security.spec.X509EncodedKeySpec
import java.util.Random

/** Signatures of the JVM's own Ed25519, and what it says of changed ones; `signing` has the cases that are made on purpose. */
class Ed25519Test {
    private val random = Random(7)
    private val generator = KeyPairGenerator.getInstance("Ed25519")

    private fun signed(pair: KeyPair, data: ByteArray): ByteArray = java.security.Signature.getInstance("Ed25519").run {
        initSign(pair.private)
        update(data)
        sign()
    }

    private fun isValidInJava(pair: KeyPair, data: ByteArray, signature: ByteArray): Boolean = try {
        java.security.Signature.getInstance("Ed25519").run {
            initVerify(KeyFactory.getInstance("Ed25519").generatePublic(X509EncodedKeySpec(pair.public.encoded)))
            update(data)
            verify(signature)
        }
    } catch (_: java.security.SignatureException) {
        false
    }

    private fun bytes(count: Int) = ByteArray(count).also { random.nextBytes(it) }

    @Test
    fun `what others sign is valid, and one changed bit is not`() {
        for (size in listOf(0, 1, 31, 64, 111, 112, 127, 128, 129, 1000)) {
            val pair = generator.generateKeyPair()
            val key = readPublicKey(pair.public.encoded)
            val data = bytes(size)
            val signature = signed(pair, data)
            assertTrue(isSignedBy(data, signature, key))
            for (at in List(24) { random.nextInt(8 * signature.size) }) {
                val changed = signature.copyOf().also { it[at / 8] = (it[at / 8].toInt() xor (1 shl at % 8)).toByte() }
                assertFalse(isSignedBy(data, changed, key), "bit $at")
                assertEquals(isValidInJava(pair, data, changed), isSignedBy(data, changed, key))
            }
            for (at in List(8) { random.nextInt(8 * key.size) }) {
                val changed = key.copyOf().also { it[at / 8] = (it[at / 8].toInt() xor (1 shl at % 8)).toByte() }
                assertFalse(isSignedBy(data, signature, changed), "bit $at of the key")
            }
            assertFalse(isSignedBy(data + 0, signature, key))
        }
    }
}
