package io.omnidraft.vocab.tokenizer

import io.omnidraft.TokenizerException
import io.omnidraft.vocab.AddedFlag
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.ModelFlag
import io.omnidraft.vocab.TokenRole
import io.omnidraft.vocab.firstNot
import java.io.File

/* A compiled tokenizer: it reads a mapped file and needs no regular expressions (spec/02-tokenizer.md). */

private const val CACHE_BITS = 13 // words
private const val LONGEST_CACHED = 64 // characters of a word

/** The bytes of each id, read from the file when they are asked for. */
internal class TokenBytes(private val tables: TokenizerTables) : AbstractList<ByteArray?>() {
    override val size: Int get() = tables.roles.size

    override fun get(index: Int): ByteArray? = when (tables.roles[index]) {
        TokenRole.UNUSED, TokenRole.CONTROL -> null
        TokenRole.BYTE -> byteArrayOf(byteOf(tables.textOf(index)))
        TokenRole.PIECE -> if (tables.kind == Kind.SENTENCEPIECE) spacesOf(tables.textOf(index)) else tables.textOf(index)
        else -> tables.textOf(index)
    }

    private fun byteOf(text: ByteArray): Byte =
        (16 * Character.digit(text[3].toInt(), 16) + Character.digit(text[4].toInt(), 16)).toByte()

    /** The text of a piece with U+2581 as a space. */
    private fun spacesOf(text: ByteArray): ByteArray {
        var size = 0
        var at = 0
        while (at < text.size) {
            val isSpace = at + 2 < text.size && text[at] == 0xE2.toByte() && text[at + 1] == 0x96.toByte() &&
                text[at + 2] == 0x81.toByte()
            text[size++] = if (isSpace) ' '.code.toByte() else text[at]
            at += if (isSpace) 3 else 1
        }
        return if (size == text.size) text else text.copyOf(size)
    }
}

internal class CompiledTokenizer(private val tables: TokenizerTables, override val name: String = "tokenizer.bin") :
    Tokenizer() {
    override val kind: Kind get() = tables.kind

    override val tokens: List<ByteArray?> = TokenBytes(tables)

    override val controls: Map<String, Control> =
        tables.added.filter { it.flags and AddedFlag.CONTROL != 0 }.associate { it.content to controlOf(it) }

    override val addsBos: String? = controls.values.lastOrNull { it.id == tables.bosId }?.content

    /** SHA-256 of the vocabulary, as the export computed it from the same ids. */
    override val fingerprint: String get() = tables.fingerprint

    override val byteIds: IntArray get() = tables.byteIds

    private val masks = ClassMasks(tables.ranges, tables.masks)
    private val merges = MergeTable(tables.mergeKeys, tables.mergeValues)
    private val cached = WordCache()
    private val pointIds = PointTable { if (it in 0xD800..0xDFFF) NONE else pieceId(utf8(intArrayOf(it), 0, 1)) }
    private val plain = tables.added.filter { it.flags and AddedFlag.CONTROL == 0 }
    private val raw = AddedTokens(plain.filter { it.flags and AddedFlag.NORMALIZED == 0 }, ::isWord)
    private val normalized = AddedTokens(plain.filter { it.flags and AddedFlag.NORMALIZED != 0 }, ::isWord)
    private val goingOn =
        AddedTokens(plain.filter { it.flags and (AddedFlag.NORMALIZED or AddedFlag.SINGLE_WORD) == 0 })

    override fun encode(points: IntArray): IntArray {
        val ids = IntList(points.size / 3 + 8)
        raw.eachPart(points) { start, end, token ->
            if (token != NONE) ids.add(token) else addNormalised(points.copyOfRange(start, end), start == 0, ids)
        }
        return ids.toArray()
    }

    private fun addNormalised(text: IntArray, isFirst: Boolean, ids: IntList) {
        val points = normalise(tables.steps, masks, text)
        normalized.eachPart(points) { start, end, token ->
            if (token != NONE) {
                ids.add(token)
            } else {
                val rest = if (end - start == points.size) points else points.copyOfRange(start, end)
                val words = wordsOf(tables.steps, masks, rest, atStart = isFirst && start == 0)
                for (word in words) addPieces(word, ids)
            }
        }
    }

    override fun eachPart(points: IntArray, part: (Int, Int, Int) -> Unit) = goingOn.eachPart(points, part)

    override fun spellWords(points: IntArray, ids: IntList) {
        val whole = lettersOf(utf8(points, 0, points.size))
        val words = wordsOf(tables.steps, masks, points, atStart = true)
        // A pre-tokenizer that adds a prefix space changes the bytes: then the fragment is one word.
        if (isWhole(words, whole)) words.forEach { addPieces(it, ids) } else addPieces(Word(whole), ids)
    }

    private fun isWhole(words: List<Word>, whole: IntArray): Boolean {
        if (words.sumOf { it.size.toLong() } != whole.size.toLong()) return false
        var at = 0
        return words.all { word -> (word.from until word.until).all { word.points[it] == whole[at++] } }
    }

    override fun spellBytes(data: ByteArray, from: Int, until: Int, ids: IntList): Boolean {
        if (kind == Kind.BYTE_LEVEL) {
            addPieces(Word(lettersOf(data, from, until)), ids)
            return true
        }
        for (at in from until until) {
            val id = tables.byteIds[data[at].toInt() and 0xff]
            if (id == NONE) return false
            ids.add(id)
        }
        return true
    }

    override fun addPieces(word: Word, ids: IntList) {
        if (word.size > LONGEST_CACHED) return addMerged(word, ids)
        val known = cached.find(word)
        if (known != null) return ids.addAll(known)
        val pieces = IntList(word.size)
        addMerged(word, pieces)
        ids.addAll(cached.keep(word, pieces.toArray()))
    }

    /** Adds the ids of a word: the word itself where merges are ignored, else its symbols, merged. */
    private fun addMerged(word: Word, ids: IntList) {
        if (tables.flags and ModelFlag.IGNORE_MERGES != 0) {
            val data = dataOf(word)
            val token = if (data == null) NONE else pieceId(data)
            if (token != NONE) return ids.add(token)
        }
        val symbols = Symbols(word.size)
        for (at in word.from until word.until) {
            val point = word.points[at]
            if (kind == Kind.BYTE_LEVEL) symbols.add(modelByteOf(point), -1) else symbols.add(pointIds[point], point)
        }
        merges.merge(symbols.end(), ids)
    }

    /** The bytes that a word of the model stands for; null where steps behind BYTES put something else into it. */
    private fun dataOf(word: Word): ByteArray? {
        if (kind == Kind.SENTENCEPIECE) return utf8(word.points, word.from, word.until)
        val data = ByteArray(word.size)
        for (i in data.indices) {
            val byte = byteOf(word.points[word.from + i])
            if (byte == NONE) return null
            data[i] = byte.toByte()
        }
        return data
    }

    private fun modelByteOf(letter: Int): Int {
        val byte = byteOf(letter)
        return if (byte < 0) NONE else tables.modelBytes[byte]
    }

    private inner class Symbols(room: Int) {
        private val symbols = IntList(room)
        private var waits = false // an unknown token comes before the next piece, but behind byte tokens

        /**
         * Adds the piece of a character, NONE if it has none; byte fallback may write [point] then, if it is not -1.
         */
        fun add(token: Int, point: Int) {
            if (token != NONE) {
                if (waits) symbols.add(tables.unknownId)
                symbols.add(token)
                waits = false
            } else if (!fallsBack(point) && tables.unknownId != NONE) {
                if (waits && tables.flags and ModelFlag.FUSE_UNKNOWN == 0) symbols.add(tables.unknownId)
                waits = true
            }
        }

        private fun fallsBack(point: Int): Boolean {
            if (point < 0 || tables.flags and ModelFlag.BYTE_FALLBACK == 0) return false
            val data = utf8(intArrayOf(point), 0, 1)
            if (data.any { tables.modelBytes[it.toInt() and 0xff] == NONE }) return false
            for (byte in data) symbols.add(tables.modelBytes[byte.toInt() and 0xff])
            return true
        }

        fun end(): IntArray {
            if (waits) symbols.add(tables.unknownId)
            return symbols.toArray()
        }
    }

    private fun isWord(point: Int): Boolean =
        tables.wordClass != NONE && (masks[point] ushr tables.wordClass) and 1L != 0L

    /** The id of a piece of the model by its text, NONE if there is none; binary search. */
    fun pieceId(data: ByteArray): Int {
        val ids = tables.sortedIds
        val at = firstNot(0, ids.size) { tables.compareText(ids[it], data) < 0 }
        return if (at < ids.size && tables.compareText(ids[at], data) == 0) ids[at] else NONE
    }

    internal companion object {
        fun fromFile(file: File): CompiledTokenizer = try {
            CompiledTokenizer(openTokenizerFile(file), file.path)
        } catch (error: OutOfMemoryError) { // strings may have 268 MB, and a phone less for an app
            throw TokenizerException("unreadable", "$file holds more strings than memory", cause = error)
        }
    }
}

/** The ids of words that were read before. A word has one place, where the last word stays. Any threads share it. */
private class WordCache {
    private class Known(val points: IntArray, val ids: IntArray)

    private val known = arrayOfNulls<Known>(1 shl CACHE_BITS) // a race costs a search, since a Known does not change

    fun find(word: Word): IntArray? {
        val last = known[placeOf(word)]
        return if (last != null && isSame(last.points, word)) last.ids else null
    }

    fun keep(word: Word, ids: IntArray): IntArray {
        known[placeOf(word)] = Known(word.points.copyOfRange(word.from, word.until), ids)
        return ids
    }

    private fun isSame(points: IntArray, word: Word): Boolean {
        if (points.size != word.size) return false
        for (i in points.indices) if (points[i] != word.points[word.from + i]) return false
        return true
    }

    private fun placeOf(word: Word): Int {
        var hash = word.size
        for (at in word.from until word.until) hash = hash * 31 + word.points[at]
        return (hash * -1640531527) ushr (Int.SIZE_BITS - CACHE_BITS) // 2^32 divided by the golden ratio
    }
}

/** The byte of each letter of the GPT-2 alphabet; -1 for what is no letter of it. */
private val BYTES = IntArray(0x200) { NONE }.also { bytes -> for (byte in LETTERS.indices) bytes[LETTERS[byte]] = byte }

private fun byteOf(letter: Int): Int = if (letter in BYTES.indices) BYTES[letter] else NONE

private fun controlOf(token: AddedToken): Control = Control(
    token.id, token.content, token.flags and AddedFlag.LSTRIP != 0, token.flags and AddedFlag.RSTRIP != 0,
)
