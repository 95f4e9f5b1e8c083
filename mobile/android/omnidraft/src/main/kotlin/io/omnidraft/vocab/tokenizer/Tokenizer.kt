package io.omnidraft.vocab.tokenizer

import io.omnidraft.PromptException
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.newSha256
import io.omnidraft.vocab.IntList

/* A tokenizer as bytes: every id is a byte string, every byte string has a spelling (spec/01-tokens.md). */

/** What the pieces of a tokenizer are made of. */
internal enum class Kind { BYTE_LEVEL, SENTENCEPIECE }

/** SentencePiece's form of a space. */
internal const val SPACE: Int = 0x2581

/**
 * A control token: it never matches by bytes, and plain text never encodes to it.
 *
 * It is an added token that is `special` or has a role; all other added tokens are text (spec/01-tokens.md).
 *
 * @property stripsLeft the white space before it is dropped.
 * @property stripsRight the white space behind it is dropped.
 */
internal class Control(val id: Int, val content: String, val stripsLeft: Boolean, val stripsRight: Boolean)

/** A tokenizer, read as bytes. It does not change, so any threads share it. */
internal abstract class Tokenizer {
    abstract val name: String

    abstract val kind: Kind

    /** Bytes of each id; null for control tokens and unused ids. They are made when they are asked for. */
    abstract val tokens: List<ByteArray?>

    abstract val controls: Map<String, Control>

    /** Content of the control token that begins a text; null for none. */
    abstract val addsBos: String?

    /** Id of each single byte, -1 for none; if two ids have it, the `<0xNN>` form, which byte fallback uses. */
    abstract val byteIds: IntArray

    /** SHA-256 over every id's bytes and the control tokens: equal vocabularies, equal fingerprints. */
    abstract val fingerprint: String

    val size: Int get() = tokens.size

    /**
     * Ids of plain text in code points, with the tokenizer's own dummy prefix and normalisation, without bos or eos.
     */
    abstract fun encode(points: IntArray): IntArray

    /** Ids of a text of whole characters in a byte-level vocabulary, not normalised. */
    protected abstract fun spellWords(points: IntArray, ids: IntList)

    /** Adds the ids of stray bytes; false if the vocabulary cannot write them. */
    protected abstract fun spellBytes(data: ByteArray, from: Int, until: Int, ids: IntList): Boolean

    /** Adds the ids of a word of the model, in which U+2581 is a space. */
    protected abstract fun addPieces(word: Word, ids: IntList)

    /** Calls [part] with plain added tokens of a text that goes on, and the text between: (start, end, id or -1). */
    protected abstract fun eachPart(points: IntArray, part: (Int, Int, Int) -> Unit)

    /** Ids of plain text, with the tokenizer's own dummy prefix and normalisation, without bos or eos. */
    fun encode(text: String): IntArray = encode(codePoints(text))

    /**
     * Ids of a prompt: control tokens are read in the template's strings, never in the texts between.
     *
     * @param parts a string of the template, a text, a string of the template, and so on; an odd number.
     * @param goesOn the prompt follows earlier ids, so its first words get no dummy prefix.
     * @throws PromptException half of a surrogate pair.
     */
    fun encodePrompt(parts: List<String>, goesOn: Boolean = false): IntArray {
        val prompt = PromptRuns(goesOn)
        for (number in parts.indices) {
            val points = codePoints(parts[number])
            if (number % 2 == 1) prompt.addText(points, 0, points.size) else addTemplate(points, prompt)
        }
        return prompt.end()
    }

    fun encodePrompt(vararg parts: String, goesOn: Boolean = false): IntArray = encodePrompt(parts.asList(), goesOn)

    /** Bytes of ids in order; control tokens and ids that do not exist are silent. */
    fun textOf(ids: IntArray): ByteArray {
        val parts = ids.map { if (it in tokens.indices) tokens[it] else null }
        val text = ByteArray(parts.sumOf { it?.size ?: 0 })
        var at = 0
        for (part in parts) {
            part?.copyInto(text, at)
            at += part?.size ?: 0
        }
        return text
    }

    /**
     * This tokenizer's own tokenization of a fragment: no dummy prefix, no bos, no normalisation.
     *
     * @return null if the vocabulary cannot write exactly these bytes.
     */
    fun spell(data: ByteArray): IntArray? {
        val ids = IntList(data.size / 2 + 8)
        var at = 0
        while (at < data.size) {
            val isStray = characterLength(data, at) == 0
            val end = endOfRun(data, at, isStray)
            val isSpelled = if (isStray) spellBytes(data, at, end, ids) else spellText(decodePoints(data, at, end), ids)
            if (!isSpelled) return null
            at = end
        }
        return ids.toArray().takeIf { textOf(it).contentEquals(data) }
    }

    /** Ids of a text behind an answer: its plain added tokens, and the text between them spelled. */
    private fun goingOnIds(points: IntArray): IntArray? {
        val ids = IntList(points.size / 3 + 8)
        var isSpelled = true
        eachPart(points) { start, end, token ->
            val own = if (token < 0) spell(utf8(points, start, end)) else intArrayOf(token)
            if (own == null) isSpelled = false else ids.addAll(own)
        }
        return if (isSpelled) ids.toArray() else null
    }

    private fun spellText(points: IntArray, ids: IntList): Boolean {
        if (kind == Kind.BYTE_LEVEL) {
            spellWords(points, ids)
            return true
        }
        // U+2581 itself: only bytes can write it, because as a piece it means a space.
        var from = 0
        for (at in 0..points.size) {
            if (at < points.size && points[at] != SPACE) continue
            if (at > from) addPieces(spaced(points, from, at), ids)
            if (at < points.size && !spellBytes(SPACE_BYTES, 0, SPACE_BYTES.size, ids)) return false
            from = at + 1
        }
        return true
    }

    private fun spaced(points: IntArray, from: Int, until: Int): Word =
        Word(IntArray(until - from) { if (points[from + it] == ' '.code) SPACE else points[from + it] })

    private fun addTemplate(points: IntArray, prompt: PromptRuns) {
        var last = 0
        controlFinder.find(points) { start, end, which ->
            prompt.addText(points, last, start)
            prompt.addControl(controlList[which])
            last = end
        }
        prompt.addText(points, last, points.size)
    }

    private val controlList: List<Control> by lazy { controls.values.toList() }

    private val controlFinder: ContentFinder by lazy { ContentFinder(controls.keys.toList()) }

    /** The ids of a prompt so far, and the text behind its last control token. */
    private inner class PromptRuns(private val goesOn: Boolean) {
        private val ids = IntList()
        private val plain = IntList()
        private var strips = false

        fun addText(points: IntArray, from: Int, until: Int) = plain.addAll(points, from, until)

        fun addControl(control: Control) {
            addFragment(control.stripsLeft)
            ids.add(control.id)
            plain.clear()
            strips = control.stripsRight
        }

        fun end(): IntArray {
            addFragment(false)
            return ids.toArray()
        }

        private fun addFragment(stripsEnd: Boolean) {
            var from = 0
            var until = plain.size
            while (strips && from < until && isWhiteSpace(plain[from])) from++
            while (stripsEnd && from < until && isWhiteSpace(plain[until - 1])) until--
            val points = plain.toArray().copyOfRange(from, until)
            val goingOn = if (goesOn && ids.size == 0) goingOnIds(points) else null
            ids.addAll(goingOn ?: encode(points))
        }
    }
}

private val SPACE_BYTES = byteArrayOf(0xE2.toByte(), 0x96.toByte(), 0x81.toByte())

/** SHA-256 of a vocabulary: spec/03-bundle.md has the bytes. */
internal fun fingerprint(tokens: List<ByteArray?>, controls: Collection<Control>): String {
    val digest = newSha256()
    for (token in tokens) {
        val size = token?.size ?: -1
        for (shift in 0..24 step 8) digest.update((size shr shift).toByte())
        if (token != null) digest.update(token)
    }
    for (control in controls.sortedBy { it.id }) {
        digest.update("${control.id}:${control.content}\n".toByteArray(Charsets.UTF_8))
    }
    return hexOf(digest.digest())
}

private fun endOfRun(data: ByteArray, start: Int, isStray: Boolean): Int {
    var at = start
    while (at < data.size) {
        val length = characterLength(data, at)
        if ((length == 0) != isStray) break
        at += maxOf(length, 1)
    }
    return at
}
