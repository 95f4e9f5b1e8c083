package io.omnidraft.disk

import java.io.ByteArrayOutputStream
import java.security.MessageDigest
import java.security.SecureRandom
import java.util.zip.CRC32

/*
 * Numbers in little-endian bytes, digests and hexadecimal text: what Python's standard library has and Kotlin's has not.
 * The functions that read do not check the range; a caller compares the place with the length first.
 */

internal fun u8(data: ByteArray, at: Int): Int = data[at].toInt() and 0xff

internal fun u16(data: ByteArray, at: Int): Int = u8(data, at) or (u8(data, at + 1) shl 8)

internal fun i32(data: ByteArray, at: Int): Int = u16(data, at) or (u16(data, at + 2) shl 16)

internal fun u32(data: ByteArray, at: Int): Long = i32(data, at).toLong() and 0xffffffffL

/** An integer of 8 bytes; compare it unsigned where the format says so. */
internal fun i64(data: ByteArray, at: Int): Long = u32(data, at) or (u32(data, at + 4) shl 32)

internal fun f32(data: ByteArray, at: Int): Float = java.lang.Float.intBitsToFloat(i32(data, at))

/** Bytes that grow, with numbers in little-endian order. */
internal class ByteWriter(size: Int = 64) {
    private val out = ByteArrayOutputStream(size)

    val size: Int get() = out.size()

    fun bytes(): ByteArray = out.toByteArray()

    fun u8(value: Int): ByteWriter = also { out.write(value) }

    fun u16(value: Int): ByteWriter = u8(value).u8(value ushr 8)

    fun i32(value: Int): ByteWriter = u16(value).u16(value ushr 16)

    fun u32(value: Long): ByteWriter = i32(value.toInt())

    fun i64(value: Long): ByteWriter = i32(value.toInt()).i32((value ushr 32).toInt())

    fun f32(value: Float): ByteWriter = i32(java.lang.Float.floatToRawIntBits(value))

    fun put(data: ByteArray, from: Int = 0, until: Int = data.size): ByteWriter = also {
        out.write(data, from, until - from)
    }
}

/** The CRC-32 of a part of an array, as an unsigned number. */
internal fun crc32(data: ByteArray, from: Int = 0, until: Int = data.size): Long {
    val sum = CRC32()
    sum.update(data, from, until - from)
    return sum.value
}

internal fun newSha256(): MessageDigest = MessageDigest.getInstance("SHA-256")

internal fun sha256(data: ByteArray): ByteArray = newSha256().digest(data)

/** Bytes as lower-case hexadecimal text. */
internal fun hexOf(data: ByteArray): String {
    val text = CharArray(2 * data.size)
    for (at in data.indices) {
        text[2 * at] = DIGITS[u8(data, at) ushr 4]
        text[2 * at + 1] = DIGITS[u8(data, at) and 15]
    }
    return String(text)
}

internal fun bytesOf(hex: String): ByteArray {
    if (hex.length % 2 != 0 || hex.any { hexDigit(it) < 0 }) throw ValueError("${quoted(hex)} is not hexadecimal")
    return ByteArray(hex.length / 2) { ((hexDigit(hex[2 * it]) shl 4) or hexDigit(hex[2 * it + 1])).toByte() }
}

internal fun isHexadecimal(text: String, digits: Int): Boolean =
    text.length == digits && text.all { it in '0'..'9' || it in 'a'..'f' }

/** 64 bits as 16 hexadecimal digits. */
internal fun hex64(bits: Long): String = bits.toULong().toString(16).padStart(16, '0')

/** Hexadecimal digits that no one can guess: names of temporary files. */
internal fun randomHex(bytes: Int): String = hexOf(ByteArray(bytes).also { SecureRandom().nextBytes(it) })

private const val DIGITS = "0123456789abcdef"
