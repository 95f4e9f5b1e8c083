package io.omnidraft.vocab.tokenizer

import io.omnidraft.TokenizerException
import io.omnidraft.disk.bytes
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.openFile
import io.omnidraft.disk.part
import io.omnidraft.vocab.ByteTable
import io.omnidraft.vocab.IntTable
import io.omnidraft.vocab.LongTable
import io.omnidraft.vocab.MOST_BYTE_TOKENS
import io.omnidraft.vocab.MOST_CLASSES
import io.omnidraft.vocab.MOST_IDS
import io.omnidraft.vocab.MOST_MERGES
import io.omnidraft.vocab.MOST_TOKENIZER_BYTES
import io.omnidraft.vocab.SECTIONS
import io.omnidraft.vocab.SECTIONS_START
import io.omnidraft.vocab.TABLE_AT
import io.omnidraft.vocab.TOKENIZER_MAGIC
import io.omnidraft.vocab.TOKENIZER_VERSION
import io.omnidraft.vocab.TokenRole
import io.omnidraft.vocab.WordTable
import io.omnidraft.vocab.offsetsFit
import java.io.File
import java.io.IOException
import java.nio.ByteBuffer
import java.nio.channels.FileChannel

/*
 * Read the file of a compiled tokenizer: it is mapped, not copied, and every number in it is checked
 * (spec/02-tokenizer.md).
 */

private const val VERSION_END = 12
private const val FINGERPRINT_AT = 16
private const val FINGERPRINT_END = 48
private const val BYTE_TOKEN_SIZE = 6 // <0xNN>
private const val HEXADECIMAL = "0123456789ABCDEFabcdef"

/** Maps a file into memory and checks it. */
internal fun openTokenizerFile(file: File): TokenizerTables = try {
    readTokenizerFile(mapped(file))
} catch (error: IOException) {
    throw TokenizerException("unreadable", "$file cannot be read (${error.message})", cause = error)
} catch (error: TokenizerException) {
    throw TokenizerException(error.fault, "$file is refused: ${error.message}", "run `omnidraft export` again", error)
}

/** The file, or the beginning of one that is too large: enough to refuse it. */
private fun mapped(file: File): ByteBuffer = openFile(file).use { stream ->
    val size = minOf(stream.channel.size(), MOST_TOKENIZER_BYTES + 1L)
    if (size == 0L) ByteBuffer.allocate(0) else stream.channel.map(FileChannel.MapMode.READ_ONLY, 0, size)
}

/** Checks the bytes of a file, from 0 to the buffer's limit; they are used in place. */
internal fun readTokenizerFile(data: ByteBuffer): TokenizerTables {
    val view = part(data, 0, data.limit())
    val sections = sectionsOf(view)
    val header = TokenizerHeader(view)
    checkIds(sections, header.ids)
    checkMerges(sections, header.ids.toInt())
    checkClasses(sections, header.classes)
    header.check()
    val strings = Strings(sections)
    val added = addedOf(words(sections, "added"), strings, header.ids.toInt(), header.wordClass)
    val steps = stepsOf(sections, strings, header.classes.toInt(), header.kind)
    checkWork(steps, added)
    return TokenizerTables(
        fingerprint = header.fingerprint,
        kind = header.kind,
        flags = header.flags.toInt(),
        unknownId = header.unknownId,
        bosId = header.bosId,
        wordClass = header.wordClass,
        offsets = words(sections, "offsets"),
        text = sections.getValue("text"),
        roles = ByteTable(sections.getValue("roles")),
        sortedIds = words(sections, "sorted"),
        mergeKeys = LongTable(sections.getValue("merge_keys")),
        mergeValues = words(sections, "merge_values"),
        byteIds = words(sections, "byte_ids").copy(),
        modelBytes = words(sections, "model_bytes").copy(),
        added = added,
        ranges = words(sections, "ranges"),
        masks = LongTable(sections.getValue("masks")),
        steps = steps,
    )
}

/** The numbers of the header; sections and version were checked before. */
private class TokenizerHeader(data: ByteBuffer) {
    val fingerprint = hexOf(bytes(data, FINGERPRINT_AT, FINGERPRINT_END))
    private val numbers = WordTable(part(data, FINGERPRINT_END, TABLE_AT))
    val ids = numbers.unsigned(0)
    private val kindNumber = numbers.unsigned(1)
    val flags = numbers.unsigned(2)
    val unknownId = numbers[3]
    val bosId = numbers[4]
    val wordClass = numbers[5]
    val classes = numbers.unsigned(6)
    private val zero = numbers[7]

    val kind: Kind get() = Kind.entries[kindNumber.toInt()]

    fun check() {
        val isSound = kindNumber < Kind.entries.size && flags < 8 && zero == 0
        val idsFit = unknownId in NONE until ids && bosId in NONE until ids && wordClass in NONE until classes
        requireSound(isSound && idsFit, "header") { "a number of its header is out of range" }
    }
}

internal fun words(sections: Map<String, ByteBuffer>, name: String): WordTable = WordTable(sections.getValue(name))

/** The sections by name; each begins at the first multiple of 8 behind the one before it. */
private fun sectionsOf(data: ByteBuffer): Map<String, ByteBuffer> {
    val size = data.limit()
    checkBeginning(data, size)
    val table = WordTable(part(data, TABLE_AT, SECTIONS_START))
    val sections = HashMap<String, ByteBuffer>()
    var end = SECTIONS_START.toLong()
    for ((at, section) in SECTIONS.entries.withIndex()) {
        val start = table.unsigned(2 * at)
        val length = table.unsigned(2 * at + 1)
        requireSound(start == end && length % section.value == 0L, "layout") {
            "its section ${section.key} is not where it must be"
        }
        requireSound(start + length <= size, "truncated") { "its section ${section.key} ends behind its last byte" }
        sections[section.key] = part(data, start.toInt(), (start + length).toInt())
        end = (start + length + 7) / 8 * 8
    }
    requireSound(size >= end, "truncated") { "it has $size bytes of $end" }
    requireSound(size.toLong() == end, "layout") { "it has $size bytes and its sections need $end" }
    return sections
}

private fun checkBeginning(data: ByteBuffer, size: Int) {
    val magic = TOKENIZER_MAGIC.toByteArray()
    val isOne = size >= magic.size && magic.indices.all { data.get(it) == magic[it] }
    requireSound(isOne, "not_a_tokenizer") { "it is not a compiled tokenizer" }
    requireSound(size >= VERSION_END, "truncated") { "it has $size bytes" }
    val version = WordTable(part(data, TOKENIZER_MAGIC.length, VERSION_END)).unsigned(0)
    requireSound(version == TOKENIZER_VERSION.toLong(), "version") {
        "it has version $version and this omnidraft reads version $TOKENIZER_VERSION"
    }
    requireSound(size >= SECTIONS_START, "truncated") { "it has $size bytes and a header has $SECTIONS_START" }
    val count = WordTable(part(data, VERSION_END, FINGERPRINT_AT)).unsigned(0)
    requireSound(count == SECTIONS.size.toLong(), "header") {
        "it has $count sections, and a tokenizer has ${SECTIONS.size}"
    }
    requireSound(size <= MOST_TOKENIZER_BYTES, "header") { "it has more than $MOST_TOKENIZER_BYTES bytes" }
}

/** Whether all entries, unsigned, are below a bound that is below 2^31. */
private fun below(table: IntTable, bound: Int): Boolean {
    table.forEach { if (it !in 0 until bound) return false }
    return true
}

/** The tables with an entry for each id. */
private fun checkIds(sections: Map<String, ByteBuffer>, count: Long) {
    val offsets = words(sections, "offsets")
    val roles = ByteTable(sections.getValue("roles"))
    val text = sections.getValue("text")
    requireSound(count in 1..MOST_IDS, "header") { "it has $count ids" }
    val ids = count.toInt()
    requireSound(offsets.size == ids + 1 && roles.size == ids, "layout") { "a table has another number of ids" }
    requireSound(offsetsFit(offsets, text.limit()), "offset") { "the offsets of its ids do not ascend" }
    checkRoles(roles, offsets, text)
    requireSound(below(words(sections, "sorted"), ids), "id") { "a piece has an id that is too large" }
    for (name in listOf("byte_ids", "model_bytes")) {
        val table = words(sections, name)
        requireSound(table.size == 256, "layout") { "its section $name has ${table.size} entries of 256" }
        requireSound(table.copy().all { it in NONE until ids }, "id") { "a byte has an id that does not exist" }
    }
}

private fun checkRoles(roles: IntTable, offsets: IntTable, text: ByteBuffer) {
    var token = 0
    var byteTokens = 0
    roles.forEach { role ->
        requireSound(role <= TokenRole.ADDED, "role") { "an id has an unknown role" }
        if (role == TokenRole.BYTE) {
            byteTokens++
            val isOne = isByteToken(text, offsets[token], offsets[token + 1])
            requireSound(isOne, "role") { "$token is not a byte token" }
        }
        token++
    }
    requireSound(byteTokens <= MOST_BYTE_TOKENS, "role") { "it has $byteTokens byte tokens" }
}

private fun isByteToken(text: ByteBuffer, start: Int, end: Int): Boolean {
    if (end - start != BYTE_TOKEN_SIZE) return false
    val form = CharArray(BYTE_TOKEN_SIZE) { (text.get(start + it).toInt() and 0xff).toChar() }
    return form[0] == '<' && form[1] == '0' && form[2] == 'x' && form[5] == '>' &&
        form[3] in HEXADECIMAL && form[4] in HEXADECIMAL
}

private fun checkMerges(sections: Map<String, ByteBuffer>, ids: Int) {
    val keys = LongTable(sections.getValue("merge_keys"))
    val values = words(sections, "merge_values")
    requireSound(values.size == 2 * keys.size && keys.size <= MOST_MERGES, "layout") { "its merges have two lengths" }
    val areBelow = checkKeys(words(sections, "merge_keys"), ids)
    var isRank = false
    var isBelow = areBelow
    values.forEach {
        isRank = !isRank
        isBelow = isBelow && (isRank || it in 0 until ids)
    }
    requireSound(isBelow, "id") { "a merge has an id that is too large" }
}

/** Whether all ids of keys exist; the keys, of which the right half is first, must ascend. */
private fun checkKeys(halves: IntTable, ids: Int): Boolean {
    var isBelow = true
    var isRight = false
    var right = 0
    var last = 0L
    var isFirst = true
    halves.forEach {
        isBelow = isBelow && it in 0 until ids
        isRight = !isRight
        if (isRight) {
            right = it
        } else {
            val key = (it.toLong() shl 32) or (right.toLong() and 0xffffffffL)
            val ascends = isFirst || last xor Long.MIN_VALUE < key xor Long.MIN_VALUE // unsigned
            requireSound(ascends, "merges") { "its merges do not ascend" }
            last = key
            isFirst = false
        }
    }
    return isBelow
}

/** The ranges of code points, and masks without bits of other classes. */
private fun checkClasses(sections: Map<String, ByteBuffer>, classes: Long) {
    val ranges = words(sections, "ranges")
    val masks = LongTable(sections.getValue("masks"))
    var isSound = ranges.size == masks.size && ranges.size > 0 && ranges[0] == 0 && below(ranges, 0x110000)
    for (i in 1 until ranges.size) isSound = isSound && ranges[i - 1] < ranges[i]
    requireSound(isSound, "classes") { "its ranges of code points do not ascend from 0" }
    var all = 0L
    for (i in 0 until masks.size) all = all or masks[i]
    val bits = Long.SIZE_BITS - java.lang.Long.numberOfLeadingZeros(all)
    requireSound(classes in bits..MOST_CLASSES, "classes") { "it has $classes classes of code points" }
}

/** Refuses a file, unless something holds. */
@OptIn(kotlin.contracts.ExperimentalContracts::class)
internal inline fun requireSound(holds: Boolean, fault: String, sentence: () -> String) {
    kotlin.contracts.contract { returns() implies holds }
    if (!holds) throw TokenizerException(fault, sentence())
}
