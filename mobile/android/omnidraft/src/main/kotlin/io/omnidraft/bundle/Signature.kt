package io.omnidraft.bundle

/* The signature of a bundle: Ed25519 over the exact bytes of its manifest, in a file beside it (spec/10-signing.md). */

import io.omnidraft.SettingException
import io.omnidraft.SignatureException
import io.omnidraft.disk.bytesOf
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.isHexadecimal
import io.omnidraft.disk.readFile
import io.omnidraft.disk.sha256
import io.omnidraft.reason
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException

internal const val SIGNATURE = "manifest.sig"
private const val FIRST_LINES = "omnidraft.signature 1\nalgorithm ed25519\nkey "
private const val MIDDLE = "\nsignature "

internal const val SIGNATURE_BYTES = FIRST_LINES.length + 16 + MIDDLE.length + 128 + 1
private const val KEY_BYTES = 32
private const val SIGN_BIT = 0x80 // of the last byte of a public key: the sign of x

/** What stands before the 32 bytes of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410). */
private val SPKI = bytesOf("302a300506032b6570032100")

/*
 * y of the points of small order, without the sign of x, little-endian: anybody can make a signature that fits such a
 * key. They are 0, 1, two points of order 8, p - 1, p and p + 1. The last two are not the least numbers of their y.
 */
private val SMALL_ORDER: Set<String> = setOf(
    "00".repeat(32),
    "01" + "00".repeat(31),
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ec" + "ff".repeat(30) + "7f",
    "ed" + "ff".repeat(30) + "7f",
    "ee" + "ff".repeat(30) + "7f",
)

/** The content of a signature file: the id of the signing key (16 hex digits), and 64 bytes. */
internal class Signature(val keyId: String, val value: ByteArray)

/** The id of a key, the first 16 hex digits of the SHA-256 of its 32 bytes: a name and not a proof. */
internal fun keyId(publicKey: ByteArray): String = hexOf(sha256(publicKey)).take(16)

/** The file that holds a signature, 200 bytes of ASCII. */
internal fun encode(signature: Signature): ByteArray =
    "$FIRST_LINES${signature.keyId}$MIDDLE${hexOf(signature.value)}\n".toByteArray(Charsets.US_ASCII)

/** Read a signature file. There is one way to write a signature; any other bytes are refused. */
internal fun decode(data: ByteArray): Signature {
    val text = String(data, Charsets.ISO_8859_1)
    if (data.size == SIGNATURE_BYTES) {
        val key = text.substring(FIRST_LINES.length, FIRST_LINES.length + 16)
        val digits = text.substring(SIGNATURE_BYTES - 129, SIGNATURE_BYTES - 1)
        if (isHexadecimal(key, 16) && isHexadecimal(digits, 128) && text == "$FIRST_LINES$key$MIDDLE$digits\n") {
            return Signature(key, bytesOf(digits))
        }
    }
    val message = "$SIGNATURE is not a signature of version 1"
    throw SignatureException("malformed", message, "sign the bundle again or copy it again")
}

/** The signature beside a manifest, unchecked; null if there is none. */
internal fun readSignature(bundle: File): Signature? {
    val file = File(bundle, SIGNATURE)
    try {
        return decode(readFile(file, SIGNATURE_BYTES + 1))
    } catch (_: FileNotFoundException) {
        return null
    } catch (error: IOException) {
        val message = "$file cannot be read (${reason(error)})"
        throw SignatureException("malformed", message, "copy the whole bundle again", error)
    }
}

internal fun verify(manifest: ByteArray, signature: Signature?, publicKey: ByteArray) {
    if (signature == null) {
        val message = "the bundle is not signed, and a public key was given"
        throw SignatureException("unsigned", message, "ask its publisher for a signed bundle")
    }
    when (faultOf(manifest, signature, publicKey)) {
        "other_key" -> {
            val given = keyId(publicKey)
            val message = "this bundle was signed with key ${signature.keyId} and the public key given is $given"
            throw SignatureException("other_key", message, "give its signer's key, or do not use this bundle")
        }
        "wrong_signature" -> {
            val message = "the signature does not fit manifest.json: one of them was changed after signing"
            throw SignatureException("wrong_signature", message, "copy the bundle again, and do not use this one")
        }
    }
}

/** The fault of a signature over bytes, `other_key` or `wrong_signature`; null if it is valid. */
internal fun faultOf(data: ByteArray, signature: Signature, publicKey: ByteArray): String? = when {
    signature.keyId != keyId(publicKey) -> "other_key"
    isOfSmallOrder(publicKey) -> "wrong_signature"
    isSignedBy(data, signature.value, publicKey) -> null
    else -> "wrong_signature"
}

private fun isOfSmallOrder(publicKey: ByteArray): Boolean {
    val y = publicKey.copyOf()
    y[KEY_BYTES - 1] = (y[KEY_BYTES - 1].toInt() and SIGN_BIT.inv()).toByte()
    return hexOf(y) in SMALL_ORDER
}

/**
 * The 32 bytes of an Ed25519 public key.
 *
 * @param key its 32 bytes, or the 44 bytes of its SubjectPublicKeyInfo, which a PEM file holds in Base64.
 */
internal fun readPublicKey(key: ByteArray): ByteArray {
    if (key.size == KEY_BYTES) return key.copyOf()
    val isWrapped = key.size == SPKI.size + KEY_BYTES && SPKI.indices.all { key[it] == SPKI[it] }
    if (isWrapped) return key.copyOfRange(SPKI.size, key.size)
    throw SettingException(
        "a public key of Ed25519 has 32 bytes, or 44 with its header, not ${key.size}",
        "give the 32 bytes, or the decoded Base64 of the PEM file that `omnidraft keygen` writes",
        "publicKey",
    )
}
