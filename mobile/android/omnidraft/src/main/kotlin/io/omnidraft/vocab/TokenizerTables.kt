package io.omnidraft.vocab

import java.nio.ByteBuffer

/* The checked contents of a compiled tokenizer (spec/02-tokenizer.md), as values. */

internal const val NONE: Int = -1 // in place of an id

/** Whether the step belongs to the normaliser. */
internal val StepOp.isNormaliser: Boolean get() = number <= StepOp.REPLACE_MATCHES.number

/**
 * An added token.
 *
 * @property id of the token.
 * @property content what a text is compared with; normalized already where the flag NORMALIZED is set.
 * @property flags of [AddedFlag].
 */
internal class AddedToken(val id: Int, val content: String, val flags: Int)

/**
 * A step with its arguments looked up; those that its [op] does not have keep their defaults.
 *
 * @property op what the step does.
 * @property strings its strings, as code points.
 * @property program of a split, or of REPLACE_MATCHES.
 * @property codeClass of NFC.
 * @property behaviour of a split.
 * @property invert of a split.
 */
internal class TextStep(
    val op: StepOp,
    val strings: List<IntArray> = emptyList(),
    val program: Program? = null,
    val codeClass: Int = 0,
    val behaviour: SplitBehaviour = SplitBehaviour.REMOVED,
    val invert: Boolean = false,
)

/**
 * The checked contents of a file. The large tables are views of the mapped file.
 *
 * @property fingerprint of the vocabulary, as its writer computed it.
 * @property kind what the pieces are made of.
 * @property flags of [ModelFlag].
 * @property unknownId NONE where there is none.
 * @property bosId NONE where there is none.
 * @property wordClass the class of the letters of words; NONE where no added token needs it.
 * @property offsets id i has the text `text[offsets[i] until offsets[i + 1]]`.
 * @property text the bytes of all ids.
 * @property roles of each id.
 * @property sortedIds ids of the model's pieces by ascending text.
 * @property mergeKeys of [MergeTable].
 * @property mergeValues of [MergeTable].
 * @property byteIds the id that writes each byte alone.
 * @property modelBytes byte-level: the id of the piece of each byte; SentencePiece: the id of its byte token.
 * @property added control tokens and other added tokens; of each sort a content is there once.
 * @property ranges code points from `ranges[i]` to before `ranges[i + 1]` are in the classes of `masks[i]`.
 * @property masks of each range, a bit for each class.
 * @property steps of the normaliser, then of the pre-tokenizer.
 */
internal class TokenizerTables(
    val fingerprint: String,
    val kind: Kind,
    val flags: Int,
    val unknownId: Int,
    val bosId: Int,
    val wordClass: Int,
    val offsets: IntTable,
    val text: ByteBuffer,
    val roles: IntTable,
    val sortedIds: IntTable,
    val mergeKeys: LongTable,
    val mergeValues: IntTable,
    val byteIds: IntArray,
    val modelBytes: IntArray,
    val added: List<AddedToken>,
    val ranges: IntTable,
    val masks: LongTable,
    val steps: List<TextStep>,
) {
    /** The text of an id: its piece, or its content. */
    fun textOf(token: Int): ByteArray {
        val start = offsets[token]
        return ByteArray(offsets[token + 1] - start) { text.get(start + it) }
    }

    /** How the text of an id compares with bytes, as unsigned bytes: negative, 0 or positive. */
    fun compareText(token: Int, data: ByteArray): Int {
        val start = offsets[token]
        val size = offsets[token + 1] - start
        for (i in 0 until minOf(size, data.size)) {
            val difference = (text.get(start + i).toInt() and 0xff) - (data[i].toInt() and 0xff)
            if (difference != 0) return difference
        }
        return size - data.size
    }
}
