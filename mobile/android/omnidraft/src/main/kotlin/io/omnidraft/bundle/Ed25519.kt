package io.omnidraft.bundle

/*
 * Signatures of Ed25519, made as RFC 8032, section 5.1.6, says, and checked as section 5.1.7 says, without the cofactor.
 *
 * Android names the algorithm on some devices, in providers that cannot all check a signature, and on others not at all.
 * So it is computed here, the same on each device. Its time depends on the numbers. A seed here is that of a device, which
 * signs what it shares, a few times, where nobody else measures.
 */

import java.math.BigInteger
import java.security.MessageDigest

private const val POINT_BYTES = 32
private const val SIGN = 255 // the bit of a point that tells whether x is odd

private val ONE = BigInteger.ONE
private val P = ONE.shiftLeft(255) - BigInteger.valueOf(19)
private val ORDER = ONE.shiftLeft(252) + BigInteger("27742317777372353535851937790883648493")
private val D = quotient(BigInteger.valueOf(-121665), BigInteger.valueOf(121666))
private val TWICE_D = D.shiftLeft(1).mod(P)
private val ROOT = BigInteger.valueOf(2).modPow(P.shiftRight(2), P) // its square is -1
private val NEUTRAL = Point(BigInteger.ZERO, ONE)
private val BASE = checkNotNull(pointOf(bytesOf(quotient(BigInteger.valueOf(4), BigInteger.valueOf(5)))))

/**
 * Whether a signature of some bytes is valid.
 *
 * @param signature 64 bytes, R and S.
 * @param publicKey 32 bytes; one that is no point in its one form has no valid signature.
 */
internal fun isSignedBy(data: ByteArray, signature: ByteArray, publicKey: ByteArray): Boolean {
    if (signature.size != 2 * POINT_BYTES || publicKey.size != POINT_BYTES) return false
    val key = pointOf(publicKey) ?: return false
    val r = signature.copyOf(POINT_BYTES)
    val s = numberOf(signature.copyOfRange(POINT_BYTES, signature.size))
    if (s >= ORDER) return false
    val k = numberOf(sha512(r, publicKey, data)).mod(ORDER)
    // A point has one encoding, so the signature is right where that of S B - k A is R.
    return bytesOf(sumOf(s, BASE, k, key.negative())).contentEquals(r)
}

/** The public key of a seed, both 32 bytes. */
internal fun publicKeyOf(seed: ByteArray): ByteArray = bytesOf(times(secretOf(sha512(seed)), BASE))

/** The signature of some bytes by the key of a seed, 64 bytes. */
internal fun signatureOf(data: ByteArray, seed: ByteArray): ByteArray {
    val hash = sha512(seed)
    val number = numberOf(sha512(hash.copyOfRange(POINT_BYTES, hash.size), data)).mod(ORDER)
    val r = bytesOf(times(number, BASE))
    val k = numberOf(sha512(r, publicKeyOf(seed), data)).mod(ORDER)
    return r + bytesOf((number + k * secretOf(hash)).mod(ORDER))
}

private fun secretOf(hash: ByteArray): BigInteger {
    val number = numberOf(hash.copyOf(POINT_BYTES))
    return number.clearBit(SIGN).setBit(SIGN - 1).clearBit(0).clearBit(1).clearBit(2)
}

private fun sha512(vararg parts: ByteArray): ByteArray {
    val hash = MessageDigest.getInstance("SHA-512")
    for (part in parts) hash.update(part)
    return hash.digest()
}

private fun times(n: BigInteger, point: Point): Point = sumOf(n, point, BigInteger.ZERO, NEUTRAL)

/** A point (X : Y : Z : T), where x = X / Z, y = Y / Z and T = X Y / Z (section 5.1.4). */
private class Point(val x: BigInteger, val y: BigInteger, val z: BigInteger = ONE, val t: BigInteger = (x * y).mod(P)) {
    /** The sum; the formula holds for all points, also for twice the same. */
    operator fun plus(other: Point): Point {
        val a = ((y - x) * (other.y - other.x)).mod(P)
        val b = ((y + x) * (other.y + other.x)).mod(P)
        val c = ((t * other.t).mod(P) * TWICE_D).mod(P)
        val d = (z * other.z).shiftLeft(1).mod(P)
        val (e, f) = b - a to d - c
        val (g, h) = d + c to b + a
        return Point((e * f).mod(P), (g * h).mod(P), (f * g).mod(P), (e * h).mod(P))
    }

    fun negative() = Point(x.negate().mod(P), y, z, t.negate().mod(P))
}

/** m a + n b. */
private fun sumOf(m: BigInteger, a: Point, n: BigInteger, b: Point): Point {
    val both = a + b
    var sum = NEUTRAL
    for (bit in maxOf(m.bitLength(), n.bitLength()) - 1 downTo 0) {
        sum += sum
        when {
            m.testBit(bit) && n.testBit(bit) -> sum += both
            m.testBit(bit) -> sum += a
            n.testBit(bit) -> sum += b
        }
    }
    return sum
}

/** The point of 32 bytes; null where there is none, or the bytes are not its one form (section 5.1.3). */
private fun pointOf(data: ByteArray): Point? {
    val y = numberOf(data).clearBit(SIGN)
    if (y >= P) return null
    val square = quotient(y * y - ONE, D * y * y + ONE) // of x; the divisor is never 0
    var x = square.modPow((P + BigInteger.valueOf(3)).shiftRight(3), P)
    if ((x * x).mod(P) != square) x = (x * ROOT).mod(P)
    val isOdd = numberOf(data).testBit(SIGN)
    if ((x * x).mod(P) != square || (isOdd && x.signum() == 0)) return null
    return Point(if (x.testBit(0) == isOdd) x else P - x, y)
}

private fun bytesOf(point: Point): ByteArray {
    val y = bytesOf(quotient(point.y, point.z))
    return if (quotient(point.x, point.z).testBit(0)) y.also { it[POINT_BYTES - 1] = (it.last() + 128).toByte() } else y
}

private fun quotient(a: BigInteger, b: BigInteger): BigInteger = (a * b.modInverse(P)).mod(P)

/** The number of bytes, the lowest first. */
private fun numberOf(data: ByteArray) = BigInteger(1, data.reversedArray())

/** A number below 2^256 as 32 bytes, the lowest first. */
private fun bytesOf(number: BigInteger) = ByteArray(POINT_BYTES) { number.shiftRight(8 * it).toByte() }
