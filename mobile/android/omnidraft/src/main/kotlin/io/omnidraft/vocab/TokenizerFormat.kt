package io.omnidraft.vocab

import java.nio.ByteBuffer

/* The format of a compiled tokenizer, version 1 (spec/02-tokenizer.md): its numbers, sections and values. */

/** The first bytes of every version. */
internal const val TOKENIZER_MAGIC: String = "ODTOKENS"

/** The version that this runtime reads. */
internal const val TOKENIZER_VERSION: Long = 1

/** The sections in their order, and the bytes of an entry of each. */
internal val SECTIONS: Map<String, Int> = linkedMapOf(
    "offsets" to 4, "text" to 1, "roles" to 1, "sorted" to 4, "merge_keys" to 8, "merge_values" to 8, "byte_ids" to 4,
    "model_bytes" to 4, "string_offsets" to 4, "strings" to 1, "added" to 12, "ranges" to 4, "masks" to 8, "code" to 12,
    "programs" to 8, "steps" to 16,
)

internal const val TABLE_AT: Int = 80 // start and bytes of each section
internal const val START: Int = 208 // of the first section: a multiple of 8, as every start is
internal const val MOST_BYTES: Long = 1L shl 30
internal const val MOST_IDS: Long = 1L shl 22
internal const val MOST_MERGES: Int = 1 shl 23
internal const val MOST_BYTE_TOKENS: Int = 1 shl 10
internal const val MOST_STRINGS: Int = 1 shl 16
internal const val MOST_STRING: Int = 1 shl 12 // bytes
internal const val MOST_STEPS: Int = 64
internal const val MOST_PROGRAMS: Int = 64
internal const val MOST_CODE: Int = 1 shl 13
internal const val MOST_PROGRAM: Int = 512
internal const val MOST_CLASSES: Int = 64
internal const val MOST_GROWTH: Int = 64 // times that steps may lengthen a text, in bytes
internal const val MOST_WORK: Int = 2048 // units of work for each byte of a text
internal const val NONE: Int = -1 // in place of an id

/** Properties of the model, a bit each. */
internal object ModelFlag {
    /** A word that is a piece is that piece, whatever the merges give. */
    const val IGNORE_MERGES: Int = 1

    /** A code point without a piece is written byte by byte. */
    const val BYTE_FALLBACK: Int = 2

    /** Neighbouring code points without a piece are one unknown token. */
    const val FUSE_UNKNOWN: Int = 4
}

/** What an id is, and so which bytes it writes. */
internal object Role {
    /** No bytes. */
    const val UNUSED: Int = 0

    /** Its text; in a SentencePiece vocabulary U+2581 is a space. */
    const val PIECE: Int = 1

    /** The byte NN of its text `<0xNN>`. */
    const val BYTE: Int = 2

    /** No bytes. */
    const val CONTROL: Int = 3

    /** Its text. */
    const val ADDED: Int = 4
}

/** Properties of an added token, a bit each. */
internal object AddedFlag {
    const val CONTROL: Int = 1
    const val LSTRIP: Int = 2
    const val RSTRIP: Int = 4
    const val NORMALIZED: Int = 8
    const val SINGLE_WORD: Int = 16
}

/** A step of the normaliser (1 to 4) or of the pre-tokenizer (5 to 9); its arguments are a, b and c. */
internal enum class StepOp(val number: Long) {
    /** NFC of the runs of code points of class a. */
    NFC(1),

    /** String a in front, where the text is not empty. */
    PREPEND(2),

    /** String a by string b. */
    REPLACE(3),

    /** The matches of program a by string b. */
    REPLACE_MATCHES(4),

    /** Each word by program a, with behaviour b; with c = 1 matches and other text change places. */
    SPLIT(5),

    /** String a by string b in each word. */
    SUBSTITUTE(6),

    /** String a in front of each word that does not begin with it. */
    PREFIX(7),

    /** The same, where the word is the beginning of the text. */
    PREFIX_FIRST(8),

    /** Each byte of a word becomes its letter of the GPT-2 alphabet. */
    BYTES(9),
    ;

    /** Whether the step belongs to the normaliser. */
    val isNormaliser: Boolean get() = number <= REPLACE_MATCHES.number
}

/** What a split does with its matches; in the order of their numbers. */
internal enum class Behaviour { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS }

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
    val behaviour: Behaviour = Behaviour.REMOVED,
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
