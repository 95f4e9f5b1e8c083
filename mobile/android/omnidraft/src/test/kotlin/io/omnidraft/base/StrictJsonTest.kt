package io.omnidraft.base

import io.omnidraft.disk.MAX_CONTAINERS
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.array
import io.omnidraft.disk.bitsOf
import io.omnidraft.disk.dump
import io.omnidraft.disk.hexadecimal
import io.omnidraft.disk.integer
import io.omnidraft.disk.long
import io.omnidraft.disk.number
import io.omnidraft.disk.numberOf
import io.omnidraft.disk.parse
import io.omnidraft.disk.real
import io.omnidraft.disk.text
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.math.BigInteger
import java.util.Random

class StrictJsonTest {
    private fun read(text: String): Any? = parse(text.toByteArray())

    private fun refused(text: String, message: String) {
        val error = assertThrows(ValueError::class.java, { read(text) }, text)
        assertTrue(message in error.message!!, "$text: ${error.message}")
    }

    @Test
    fun `values have the kinds of the list`() {
        val value = read(""" {"a": [null, true, false, -0, 1.0, 1E2, "\u00e9\ud83d\ude80/\/"], "b": {}} """)
        assertEquals(mapOf("a" to listOf(null, true, false, 0L, 1.0, 100.0, "é\uD83D\uDE80//"), "b" to mapOf<String, Any>()), value)
        assertEquals(BigInteger("9223372036854775808"), read("9223372036854775808"))
        assertEquals(Long.MIN_VALUE, read("-9223372036854775808"))
    }

    @Test
    fun `what readers of JSON disagree on is refused`() {
        val texts = listOf(
            "", " ", "01", "+1", ".5", "1.", "1e", "1e+", "-", "--1", "NaN", "Infinity", "-Infinity", "nul", "truefalse",
            "[1,]", "[,1]", "[1 2]", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "{\"a\":}", "[", "{", "\"", "\"\\", "\"\\x\"",
            "\"\\u12\"", "\"\\u12g4\"", "\"\n\"", "1 2", "[]]", "'a'", "\uFEFF1", "\u00a01", "1\u0000", "\u0661", "/**/1",
        )
        for (text in texts) refused(text, "it is not JSON")
        refused("{\"a\":1,\"\\u0061\":2}", "twice")
        refused("\"\\ud800\"", "half a surrogate pair")
        refused("{\"\\udc00\\ud800\":1}", "half a surrogate pair")
        refused("1e999", "too large")
        refused("1".repeat(33), "33 characters")
        assertThrows(ValueError::class.java) { parse(byteArrayOf(0x22, 0xED.toByte(), 0xA0.toByte(), 0x80.toByte(), 0x22)) }
        assertThrows(ValueError::class.java) { parse(byteArrayOf(0x22, 0xC0.toByte(), 0x80.toByte(), 0x22)) }
    }

    @Test
    fun `depth and number of arrays are bounded`() {
        assertEquals(1, (read("[".repeat(32) + "]".repeat(32)) as List<*>).size)
        refused("[".repeat(33) + "]".repeat(33), "nested more than 32 deep")
        refused("{\"a\":".repeat(4_000_000), "nested more than 32 deep")
        val most = "[" + "[],".repeat(MAX_CONTAINERS - 2) + "[]]"
        assertEquals(MAX_CONTAINERS - 1, (read(most) as List<*>).size)
        refused(most.dropLast(1) + ",[]]", "more than $MAX_CONTAINERS arrays")
    }

    @Test
    fun `what is written has one form, and is read again`() {
        val text = "\"\\/\b\n\u001f\u007f\u00e9\uD83D\uDE80"
        assertEquals("\"\\\"\\\\/\\u0008\\u000a\\u001f\u007f\u00e9\uD83D\uDE80\"", dump(text).toString(Charsets.UTF_8))
        val value = mapOf("b" to listOf(1L, null, true, text), "a" to mapOf<String, Any?>())
        assertEquals(value, parse(dump(value)))
        assertEquals("{\"b\":1,\"a\":[]}", dump(linkedMapOf("b" to 1, "a" to listOf<Any>())).toString(Charsets.UTF_8))
        assertThrows(IllegalArgumentException::class.java) { dump(listOf(0.5)) }
        assertThrows(ValueError::class.java) { dump("\uD800") }
    }

    @Test
    fun `the parser is total`() {
        val random = Random(1)
        val alphabet = "[]{}\",:\\u0123e-.tn "
        var valid = 0
        repeat(100_000) {
            val text = String(CharArray(random.nextInt(12)) { alphabet[random.nextInt(alphabet.length)] })
            try {
                parse(text.toByteArray())
                valid++
            } catch (error: ValueError) {
                assertTrue(error.message!!.isNotEmpty())
            }
        }
        assertTrue(valid > 100, "$valid texts were JSON")
    }

    @Test
    fun `bits are the number`() {
        assertEquals("3ff0000000000000", bitsOf(1.0))
        assertEquals("8000000000000000", bitsOf(-0.0))
        val random = Random(2)
        repeat(1000) {
            val bits = random.nextLong()
            val number = java.lang.Double.longBitsToDouble(bits)
            if (!number.isNaN()) assertEquals(bits, java.lang.Double.doubleToRawLongBits(numberOf(bitsOf(number))))
        }
    }

    @Test
    fun `fields refuse other kinds and numbers outside`() {
        val bad: List<() -> Any> = listOf(
            { integer(true, 0) }, { integer(1.0, 0) }, { integer(-1L, 0) }, { integer(1L shl 31, 0) }, { integer("1", 0) },
            { long(BigInteger.ONE.shiftLeft(64), 0, Long.MAX_VALUE) }, { long(null, 0) }, { number(true) }, { number("1") },
            { number(Double.NaN) }, { number(Double.POSITIVE_INFINITY) }, { number(2L, 0.0, 1.0) }, { number(1.5, 0.0, 1.0) },
            { number((1L shl 53) + 1, 0.0, 9007199254740992.0) }, { hexadecimal("0G", 2) }, { hexadecimal("AB", 2) },
            { hexadecimal("abc", 2) }, { text("é", 1) }, { text("\uD800") }, { array(mapOf<String, Any>()) },
            { array(listOf(1L), 0) }, { array(listOf<Any>(), 2, 1) }, { real("7ff8000000000000", 0.0, 1.0) },
        )
        bad.forEachIndexed { index, call -> assertThrows(ValueError::class.java, { call() }, "call $index") }
        assertEquals(1.0, number(1L, 0.0, 1.0))
        assertEquals(1e30, number(BigInteger.TEN.pow(30)))
        assertEquals(Int.MAX_VALUE, integer(Int.MAX_VALUE.toLong(), 0))
        assertArrayEquals(intArrayOf(3, 0), io.omnidraft.disk.ids(listOf(3L, 0L)))
    }
}
