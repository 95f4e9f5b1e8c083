package io.omnidraft.chat

import io.omnidraft.decoding.NO_IDS
import io.omnidraft.decoding.wholeTokens
import io.omnidraft.grammar.CallForm
import io.omnidraft.vocab.tokenizer.Tokenizer
import java.io.ByteArrayOutputStream

/*
 * The bytes of an output's text, with tags of thoughts and calls; the ids that a conversation keeps (spec/01-tokens.md, Thoughts).
 */

private const val MOST_TAIL = 128 // ids at the end of a prompt in which an open tag is looked for
private val WHITE_BYTES = " \t\n\r".toByteArray(Charsets.US_ASCII) // behind the open tag

/** Reads the ids of outputs as text in which tags of thoughts and calls are written. */
internal class OutputText(
    private val tokenizer: Tokenizer,
    private val think: ThinkTags?, // tags of the model; null for a model that writes no thoughts
    calls: CallForm? = null, // how calls of tools are written; null for a model that cannot call any
    private val plainBytesOf: (Int) -> ByteArray, // the bytes of a target id; none for a control token
) {
    private val tags: Map<Int, ByteArray> = listOfNotNull(think?.open, think?.close)
        .mapNotNull { name -> tokenizer.controls[name]?.let { it.id to name.toByteArray(Charsets.UTF_8) } }.toMap()
    private val silent: Set<Int> = tokenizer.controls.values.map { it.id }.toSet() - tags.keys


    /** What the text has of a control token. */
    val shown: Map<Int, ByteArray> = tags + tokenizer.controls.entries
        .filter { calls != null && it.key in calls.open + calls.close }
        .associate { it.value.id to it.key.toByteArray(Charsets.UTF_8) }

    /** Bytes of an id: tags of thoughts and calls are written, every other control token is silent. */
    fun bytesOf(token: Int): ByteArray = shown[token] ?: plainBytesOf(token)

    fun text(ids: IntArray): ByteArray {
        val text = ByteArrayOutputStream()
        for (id in ids) {
            val data = bytesOf(id)
            text.write(data, 0, data.size)
        }
        return text.toByteArray()
    }

    /** Whether an output after a prompt begins inside a thought: the prompt ends with the open tag. */
    fun endsInThought(prompt: IntArray): Boolean {
        if (think == null) return false
        var first = prompt.size
        while (first > maxOf(0, prompt.size - MOST_TAIL) && prompt[first - 1] !in silent) first--
        val data = text(prompt.copyOfRange(first, prompt.size))
        var end = data.size
        while (end > 0 && data[end - 1] in WHITE_BYTES) end--
        val open = think.open.toByteArray(Charsets.UTF_8)
        return end >= open.size && data.copyOfRange(end - open.size, end).contentEquals(open)
    }

    /** The ids of an answer that a conversation keeps: without its thought, if the template leaves it out. */
    fun kept(ids: IntArray, inside: Boolean): IntArray {
        val start = if (think == null) 0 else keptStart(text(ids), think, inside)
        if (start == 0) return ids
        val whole = wholeTokens(IntArray(ids.size) { bytesOf(ids[it]).size }, start)
        if (whole.bytes == 0) return ids.copyOfRange(whole.tokens, ids.size)
        // The thought ends inside a token: the bytes behind it are spelled again.
        val data = bytesOf(ids[whole.tokens])
        val spelled = tokenizer.spell(data.copyOfRange(whole.bytes, data.size)) ?: NO_IDS
        return spelled + ids.copyOfRange(whole.tokens + 1, ids.size)
    }
}
