package io.omnidraft.vocab.tokenizer

import io.omnidraft.vocab.IntTable
import io.omnidraft.vocab.LongTable
import io.omnidraft.vocab.SplitBehaviour
import io.omnidraft.vocab.StepOp
import java.nio.ByteBuffer

/* The checked contents of a compiled tokenizer (spec/02-tokenizer.md), as values. */

internal const val NONE: Int = -1 // in place of an id

internal val StepOp.isNormaliser: Boolean get() = number <= StepOp.REPLACE_MATCHES.number

/**
 * An added token.
 *
 * @property content what a text is compared with; normalized already where the flag NORMALIZED is set.
 */
internal class AddedToken(val id: Int, val content: String, val flags: Int)

/** A step with its arguments looked up; those that its [op] does not have keep their defaults. */
internal class TextStep(
    val op: StepOp,
    val strings: List<IntArray> = emptyList(), // its strings, as code points
    val program: Program? = null, // of a split, or of REPLACE_MATCHES
    val codeClass: Int = 0,
    val behaviour: SplitBehaviour = SplitBehaviour.REMOVED,
    val invert: Boolean = false,
)

/** The checked contents of a file. The large tables are views of the mapped file. */
internal class TokenizerTables(
    val fingerprint: String, // of the vocabulary, as its writer computed it
    val kind: Kind, // what the pieces are made of
    val flags: Int,
    val unknownId: Int, // NONE where there is none
    val bosId: Int, // NONE where there is none
    val wordClass: Int, // the class of the letters of words; NONE where no added token needs it
    val offsets: IntTable, // id i has the text `text[offsets[i] until offsets[i + 1]]`
    val text: ByteBuffer, // the bytes of all ids
    val roles: IntTable, // of each id
    val sortedIds: IntTable, // ids of the model's pieces by ascending text
    val mergeKeys: LongTable,
    val mergeValues: IntTable,
    val byteIds: IntArray, // the id that writes each byte alone
    val modelBytes: IntArray, // byte-level: the id of the piece of each byte; SentencePiece: the id of its byte token
    val added: List<AddedToken>, // control tokens and other added tokens; of each sort a content is there once
    val ranges: IntTable, // code points from `ranges[i]` to before `ranges[i + 1]` are in the classes of `masks[i]`
    val masks: LongTable, // of each range, a bit for each class
    val steps: List<TextStep>, // of the normaliser, then of the pre-tokenizer
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
