package io.omnidraft.vocab.tokenizer

import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.IntTable
import io.omnidraft.vocab.LongTable
import io.omnidraft.vocab.SplitBehaviour
import io.omnidraft.vocab.StepOp
import io.omnidraft.vocab.firstNot
import java.text.Normalizer
import java.util.concurrent.atomic.AtomicReferenceArray

/*
 * Run the steps of a compiled tokenizer on a text: the normaliser, then the pre-tokenizer, which cuts it
 * (spec/02-tokenizer.md).
 */

private const val FIRST_MARK = 0x300 // the first code point that NFC changes or that changes the one before it
private const val PAGE_BITS = 8
private const val PAGE = 1 shl PAGE_BITS
private const val PAGES = 0x110000 shr PAGE_BITS

/**
 * The classes of a code point, a bit each. They are looked up in the ranges of the file, and kept for the 256 code
 * points around it. Any threads share it.
 */
internal class ClassMasks(private val ranges: IntTable, private val masks: LongTable) {
    private val pages = AtomicReferenceArray<LongArray>(PAGES)

    operator fun get(point: Int): Long = page(point shr PAGE_BITS)[point and (PAGE - 1)]

    /** The masks of a part of a text, one for each code point. */
    fun of(points: IntArray, from: Int = 0, until: Int = points.size): LongArray =
        LongArray(until - from) { get(points[from + it]) }

    private fun page(number: Int): LongArray = pages.get(number) ?: newPage(number).also { pages.set(number, it) }

    private fun newPage(number: Int): LongArray {
        var range = firstNot(0, ranges.size) { ranges[it] <= (number shl PAGE_BITS) } - 1 // that the page begins in
        return LongArray(PAGE) {
            while (range + 1 < ranges.size && ranges[range + 1] <= (number shl PAGE_BITS) + it) range++
            masks[range]
        }
    }
}

/** A number for each code point, computed for 256 of them at once when the first is asked for. Any threads share it. */
internal class PointTable(private val compute: (Int) -> Int) {
    private val pages = AtomicReferenceArray<IntArray>(PAGES)

    operator fun get(point: Int): Int = page(point shr PAGE_BITS)[point and (PAGE - 1)]

    private fun page(number: Int): IntArray = pages.get(number)
        ?: IntArray(PAGE) { compute((number shl PAGE_BITS) + it) }.also { pages.set(number, it) }
}

/** The GPT-2 byte alphabet: a printable letter, as a code point, for each of the 256 bytes. */
internal fun byteLetters(): IntArray {
    var unprintable = 0x100
    return IntArray(0x100) { if (it in 0x21..0x7E || it in 0xA1..0xAC || it in 0xAE..0xFF) it else unprintable++ }
}

internal val LETTERS: IntArray = byteLetters()

internal fun lettersOf(data: ByteArray, from: Int = 0, until: Int = data.size): IntArray =
    IntArray(until - from) { LETTERS[data[from + it].toInt() and 0xff] }

internal fun normalise(steps: List<TextStep>, masks: ClassMasks, text: IntArray): IntArray {
    var points = text
    for (step in steps) {
        points = when (step.op) {
            StepOp.NFC -> nfc(points, masks, 1L shl step.codeClass)
            StepOp.PREPEND -> if (points.isEmpty()) points else step.strings[0] + points
            StepOp.REPLACE -> replaced(points, 0, points.size, step.strings[0], step.strings[1])
            StepOp.REPLACE_MATCHES -> matchesReplaced(step, masks, points)
            else -> points
        }
    }
    return points
}

/** Runs the steps of the pre-tokenizer on a normalised text. */
internal fun wordsOf(steps: List<TextStep>, masks: ClassMasks, text: IntArray, atStart: Boolean): List<Word> {
    var words = if (text.isEmpty()) emptyList() else listOf(Word(text))
    for (step in steps) {
        if (step.op.isNormaliser) continue
        val changed = ArrayList<Word>(words.size + 8)
        for ((index, word) in words.withIndex()) {
            when (step.op) {
                StepOp.SPLIT -> split(step, masks, word, changed)
                StepOp.SUBSTITUTE -> changed.add(substituted(word, step))
                StepOp.BYTES -> changed.add(bytesOf(word))
                StepOp.PREFIX -> changed.add(prefixed(word, step.strings[0]))
                else -> changed.add(if (atStart && index == 0) prefixed(word, step.strings[0]) else word)
            }
        }
        words = changed
    }
    return words
}

private fun substituted(word: Word, step: TextStep): Word =
    Word(replaced(word.points, word.from, word.until, step.strings[0], step.strings[1]))

private fun bytesOf(word: Word): Word = Word(lettersOf(utf8(word.points, word.from, word.until)))

private fun prefixed(word: Word, prefix: IntArray): Word {
    if (standsAt(prefix, word.points, word.from, word.until)) return word
    return Word(prefix + word.points.copyOfRange(word.from, word.until))
}

/**
 * NFC of each run of code points of a class; all others stay as they are.
 *
 * Outside the class are the code points that the writer's Unicode version did not know. A newer version of the platform
 * would reorder or compose some of them.
 */
private fun nfc(points: IntArray, masks: ClassMasks, bit: Long): IntArray {
    if (points.all { it < FIRST_MARK }) return points
    val done = IntList(points.size)
    var start = 0
    for (at in 0..points.size) {
        if (at < points.size && masks[points[at]] and bit != 0L) continue
        if (at > start) {
            val run = String(points, start, at - start)
            done.addAll(codePoints(Normalizer.normalize(run, Normalizer.Form.NFC)))
        }
        if (at < points.size) done.add(points[at])
        start = at + 1
    }
    return done.toArray()
}

/** Whether a text stands in another at a place, before [until]. */
private fun standsAt(text: IntArray, points: IntArray, at: Int, until: Int): Boolean {
    if (until - at < text.size) return false
    for (i in text.indices) if (points[at + i] != text[i]) return false
    return true
}

/** A part of a text with each [old], which is not empty, replaced from left to right. */
private fun replaced(points: IntArray, from: Int, until: Int, old: IntArray, new: IntArray): IntArray {
    val result = IntList(until - from)
    var at = from
    while (at < until) {
        if (standsAt(old, points, at, until)) {
            result.addAll(new)
            at += old.size
        } else {
            result.add(points[at++])
        }
    }
    return result.toArray()
}

private fun matchesReplaced(step: TextStep, masks: ClassMasks, points: IntArray): IntArray {
    val result = IntList(points.size)
    eachPart(step, masks, Word(points)) { from, until, isMatch ->
        if (isMatch) result.addAll(step.strings[0]) else result.addAll(points, from, until)
    }
    return result.toArray()
}

/** Calls [part] with the places of matches of the step's program (true), and of the text between them. */
private inline fun eachPart(step: TextStep, masks: ClassMasks, word: Word, part: (Int, Int, Boolean) -> Unit) {
    val program = checkNotNull(step.program) { "the step has no program" }
    var last = 0
    findMatches(program, masks.of(word.points, word.from, word.until)) { start, end ->
        if (last < start) part(word.from + last, word.from + start, false)
        part(word.from + start, word.from + end, true)
        last = end
    }
    if (last < word.size) part(word.from + last, word.until, false)
}

/** Cuts a word. Parts follow one another, so parts that are joined are a range again. */
private fun split(step: TextStep, masks: ClassMasks, word: Word, words: MutableList<Word>) {
    val ends = IntList()
    val matches = IntList()
    eachPart(step, masks, word) { _, until, isMatch ->
        ends.add(until)
        matches.add(if (isMatch != step.invert) 1 else 0)
    }
    if (step.behaviour == SplitBehaviour.MERGED_WITH_NEXT) return addMergedWithNext(word, ends, matches, words)
    var start = word.from
    for (i in 0 until ends.size) {
        // A part goes on where the next one is joined to it.
        if (i + 1 < ends.size && joinsPrevious(step.behaviour, matches[i + 1], matches[i])) continue
        val isDropped = step.behaviour == SplitBehaviour.REMOVED && matches[i] == 1
        if (!isDropped) words.add(Word(word.points, start, ends[i]))
        start = ends[i]
    }
}

/** Whether a part joins the part before it: an equal neighbour, or a match behind other text. */
private fun joinsPrevious(behaviour: SplitBehaviour, isMatch: Int, wasMatch: Int): Boolean = when (behaviour) {
    SplitBehaviour.CONTIGUOUS -> isMatch == wasMatch
    SplitBehaviour.MERGED_WITH_PREVIOUS -> isMatch > wasMatch
    else -> false
}

/** A match is joined to the text behind it. */
private fun addMergedWithNext(word: Word, ends: IntList, matches: IntList, words: MutableList<Word>) {
    var start = word.from
    for (i in 0 until ends.size) {
        if (i + 1 < ends.size && matches[i] > matches[i + 1]) continue
        words.add(Word(word.points, start, ends[i]))
        start = ends[i]
    }
}
