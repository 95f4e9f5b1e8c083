package io.omnidraft.vocab.tokenizer

import io.omnidraft.vocab.AddedFlag

/**
 * Added tokens that are read in plain text.
 *
 * @param isWord whether a code point belongs to a word; asked for tokens that are single words alone.
 */
internal class AddedTokens(private val tokens: List<AddedToken>, private val isWord: (Int) -> Boolean = { false }) {
    private val finder = ContentFinder(tokens.map { it.content })

    /** Calls [part] with added tokens and the text between them, in order: (start, end, id); NONE marks text. */
    fun eachPart(text: IntArray, part: (Int, Int, Int) -> Unit) {
        var last = 0
        var space = 0 // up to there all is white space behind a token with RSTRIP
        if (tokens.isNotEmpty()) {
            finder.find(text) { from, until, number ->
                val token = tokens[number]
                if (token.flags and AddedFlag.SINGLE_WORD == 0 || !isInsideWord(text, from, until)) {
                    val start = if (token.flags and AddedFlag.LSTRIP != 0) beforeSpace(text, last, from) else from
                    if (last < start) part(last, start, NONE)
                    if (token.flags and AddedFlag.RSTRIP != 0) space = behindSpace(text, maxOf(until, space))
                    last = if (token.flags and AddedFlag.RSTRIP != 0) space else until
                    part(start, last, token.id)
                }
            }
        }
        if (last < text.size) part(last, text.size, NONE)
    }

    private fun isInsideWord(text: IntArray, start: Int, end: Int): Boolean =
        (start > 0 && isWord(text[start - 1])) || (end < text.size && isWord(text[end]))

    /** The first place from [last] on that has only white space up to [start]; [last] where that is behind it. */
    private fun beforeSpace(text: IntArray, last: Int, start: Int): Int {
        var at = maxOf(start, last)
        while (at > last && isWhiteSpace(text[at - 1])) at--
        return at
    }

    private fun behindSpace(text: IntArray, end: Int): Int {
        var at = end
        while (at < text.size && isWhiteSpace(text[at])) at++
        return at
    }
}
