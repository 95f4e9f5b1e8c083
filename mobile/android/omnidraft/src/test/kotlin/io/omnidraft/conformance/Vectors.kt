package io.omnidraft.conformance

import io.omnidraft.disk.bytesOf
import io.omnidraft.disk.parse
import java.io.File
import java.math.BigInteger
import kotlin.math.abs

/*
 * Reads spec/vectors, as tests/conformance/vectors.py does.
 *
 * Values are those of StrictJson: null, Boolean, Long, BigInteger, Double, String, List, Map.
 */

/** The repository: the system property `omnidraft.root`. */
val REPOSITORY: File = File(System.getProperty("omnidraft.root") ?: error("omnidraft.root is not set"))

val ROOT: File = File(REPOSITORY, "spec/vectors")

typealias Json = Map<String, Any?>

fun jsonOf(path: String): Any? = parse(File(ROOT, path).readBytes())

class Vector(val folder: String, content: Json) {
    /** The name, which is unique in the folder. */
    val name: String = content.getValue("name").str()

    val why: String = content.getValue("why").str()

    /** What is given. */
    val input: Json = content.getValue("input").obj()

    /** What must come of it; an object in most folders. */
    val expect: Any? = content["expect"]

    val expected: Json get() = expect.obj()

    fun file(name: String): File = File(File(ROOT, folder), name)

    override fun toString(): String = "$folder/$name ($why)"
}

/** All vectors of a folder, in every list of objects that it holds; folders inside it are folders of their own. */
fun vectorsOf(folder: String): List<Vector> {
    val files = File(ROOT, folder).listFiles { file -> file.name.endsWith(".json") } ?: error("no folder $folder")
    return files.sortedBy { it.name }.flatMap { file ->
        val content = jsonOf("$folder/${file.name}")
        if (content is List<*> && content.firstOrNull() is Map<*, *>) content.map { Vector(folder, it.obj()) } else listOf()
    }
}

/** The number of vectors of each folder, by the manifest. */
val COUNTS: Map<String, Int> by lazy {
    val levels = jsonOf("manifest.json").obj().getValue("levels").obj()
    levels.values.flatMap { it.obj().entries }.associate { it.key to it.value.int() }
}

/** This value as an object. */
@Suppress("UNCHECKED_CAST")
fun Any?.obj(): Json = this as? Json ?: error("$this is not an object")

fun Any?.list(): List<Any?> = this as? List<*> ?: error("$this is not a list")

fun Any?.str(): String = this as? String ?: error("$this is not a string")

fun Any?.bool(): Boolean = this as? Boolean ?: error("$this is not a boolean")

/** This value as an Int; an integer that no Int holds is an error. */
fun Any?.int(): Int = Math.toIntExact(long())

fun Any?.long(): Long = this as? Long ?: error("$this is not a Long")

/** This value as a Double; also an integer, and the texts `NaN`, `Infinity` and `-Infinity`. */
fun Any?.num(): Double = when (this) {
    is Long, is Double, is BigInteger -> (this as Number).toDouble()
    "NaN" -> Double.NaN
    "Infinity" -> Double.POSITIVE_INFINITY
    "-Infinity" -> Double.NEGATIVE_INFINITY
    else -> error("$this is not a number")
}

/** This list as ids or counts. */
fun Any?.ints(): IntArray = list().map { it.int() }.toIntArray()

fun Any?.longs(): LongArray = list().map { it.long() }.toLongArray()

fun Any?.nums(): DoubleArray = list().map { it.num() }.toDoubleArray()

fun Any?.floats(): FloatArray = list().map { it.num().toFloat() }.toFloatArray()

fun Any?.hex(): ByteArray = bytesOf(str())

/** The 64 bits of this text, as `0x0000019a00000001`. */
fun Any?.bits(): Long = str().removePrefix("0x").toULong(16).toLong()

/** Whether two numbers agree: absolutely or relatively to the tolerance, and zero only with zero. */
fun close(actual: Double, expected: Double, tolerance: Double): Boolean = when {
    expected.isNaN() -> actual.isNaN()
    expected == 0.0 || expected.isInfinite() -> actual == expected
    else -> actual != 0.0 && abs(actual - expected) <= tolerance * (1 + abs(expected))
}

/** Fails, and says why the vector is there, unless two lists of numbers agree to a tolerance. */
fun assertClose(vector: Vector, what: String, expected: DoubleArray, actual: DoubleArray, tolerance: Double = 1e-12) {
    if (expected.size != actual.size) {
        throw AssertionError("$what has ${actual.size} numbers and not ${expected.size}; ${vector.why}")
    }
    for (at in expected.indices) {
        if (close(actual[at], expected[at], tolerance)) continue
        throw AssertionError("$what[$at] is ${actual[at]} and not ${expected[at]}; ${vector.why}")
    }
}

/** Fails, and says why the vector is there, unless two values are equal; arrays are compared by their items. */
fun assertSame(vector: Vector, what: String, expected: Any?, actual: Any?) {
    val (want, got) = plain(expected) to plain(actual)
    if (want != got) throw AssertionError("$what is ${brief(got)} and not ${brief(want)}; ${vector.why}")
}

private fun brief(value: Any?): String = value.toString().let { if (it.length > 2000) it.take(2000) + "..." else it }

/** Values of one kind in one type, so that they can be compared: integers as Long, floats as Double, arrays as lists. */
private fun plain(value: Any?): Any? = when (value) {
    is Int -> value.toLong()
    is Short -> value.toLong()
    is Byte -> value.toLong()
    is Float -> value.toDouble()
    is ByteArray -> value.map { it.toLong() and 0xff }
    is IntArray -> value.map { it.toLong() }
    is LongArray -> value.toList()
    is FloatArray -> value.map { it.toDouble() }
    is DoubleArray -> value.toList()
    is BooleanArray -> value.toList()
    is Array<*> -> value.map { plain(it) }
    is List<*> -> value.map { plain(it) }
    is Map<*, *> -> value.mapValues { plain(it.value) }
    else -> value
}
