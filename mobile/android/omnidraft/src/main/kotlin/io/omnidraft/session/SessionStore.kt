package io.omnidraft.session

import io.omnidraft.CacheFileException
import io.omnidraft.Notice
import io.omnidraft.NoticeKind
import io.omnidraft.SessionFileException
import io.omnidraft.StopReason
import io.omnidraft.bundle.Bundle
import io.omnidraft.decoding.DecoderState
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.placeOf
import io.omnidraft.disk.readFile
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.writeAtomically
import io.omnidraft.models.Role
import io.omnidraft.reason
import io.omnidraft.session.state.Identity
import io.omnidraft.session.state.MAX_SESSION_BYTES
import io.omnidraft.session.state.SESSION_MAGIC
import io.omnidraft.session.state.SavedAnswer
import io.omnidraft.session.state.SavedSession
import io.omnidraft.session.state.asksDrafter
import io.omnidraft.session.state.decodeSession
import io.omnidraft.session.state.encodeSession
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.checkAgainst
import io.omnidraft.vocab.decode
import io.omnidraft.vocab.encode
import java.io.File
import java.io.IOException

/* Sessions between memory and disk: gather a session's state, check a file against a bundle, restore it. */

/** The version of this library, which files that it writes carry. */
internal const val VERSION = "0.1.0"
private const val REMEDY = "begin a new session, or give the file that was saved"

/** Writes a session file; a kill at any moment leaves a whole file, the old or the new one. */
internal fun writeSession(file: File, saved: SavedSession, cache: ByteArray) {
    try {
        val place = placeOf(file)
        if (!mayReplace(place)) {
            val message = "$file is not a session file, so it is not replaced"
            throw SessionFileException("unwritable", message, "choose another name")
        }
        writeAtomically(place, encodeSession(saved, cache))
    } catch (error: IOException) {
        val message = "the session cannot be saved as $file (${reason(error)})"
        throw SessionFileException("unwritable", message, "choose another place")
    }
}

/** Whether nothing is there, or an empty file, or a session file, also a damaged one. */
private fun mayReplace(place: File): Boolean {
    if (!place.exists()) return true
    val head = readFile(place, SESSION_MAGIC.size)
    return head.isEmpty() || head.contentEquals(SESSION_MAGIC)
}

internal fun readSession(file: File): Pair<SavedSession, ByteArray> {
    val data = try {
        readWhole(file, MAX_SESSION_BYTES)
    } catch (error: IOException) {
        throw SessionFileException("unreadable", "$file cannot be read (${reason(error)})", REMEDY)
    }
    try {
        return decodeSession(data)
    } catch (error: SessionFileException) {
        throw refused(file, error)
    }
}

private fun refused(file: File, error: SessionFileException) =
    SessionFileException(error.fault, "$file is refused: ${error.message}", REMEDY)

/** What sessions of a bundle belong to. */
internal fun identityOf(bundle: Bundle, adapters: Map<Role, String> = emptyMap()): Identity {
    val read = bundle.files.filterKeys { bundle.target.reads(it) || bundle.drafter.reads(it) }
    return Identity(
        bundle.drafter.tokenizerFingerprint,
        bundle.target.tokenizerFingerprint,
        read.mapValues { it.value.sha256 },
        adapters,
    )
}

internal fun capture(models: SessionModels, text: TextState): Pair<SavedSession, ByteArray> {
    val loaded = models.loaded
    val saved = SavedSession(
        omnidraft = VERSION,
        identity = identityOf(loaded.bundle, models.adapters.mapValues { it.value.digest }),
        costs = text.costs,
        lengths = text.lengths.copy(),
        turns = text.turns,
        asked = text.asked,
        answer = text.answer?.let { answer ->
            SavedAnswer(
                config = answer.config,
                prompt = answer.prompt,
                output = answer.tokenIds,
                context = if (loaded.drafter == null) null else text.decoder.context.toArray(),
                random = text.random.state,
                stopReason = savedReason(answer),
                logprobs = answer.logprobs,
            )
        },
        system = text.system,
        tools = text.tools,
    )
    return saved to encode(text.cache.table())
}

/** The file has no grammar, so nobody can go on with an answer in one. */
private fun savedReason(answer: Generation): StopReason? {
    val reason = answer.stopReason
    if (!answer.hasGrammar || (reason != null && reason != StopReason.COMPLETE)) return reason
    return answer.limit() ?: StopReason.CANCELLED
}

/**
 * The state of a text that a file holds, and a notice where the session was saved with another adapter of the drafter;
 * everything is checked before it is returned.
 *
 * The models read the text again: the KV buffers are not part of the file.
 */
internal fun restore(
    models: SessionModels,
    text: TextState, // its present state, whose cache gives the capacity
    file: File,
    saved: SavedSession,
    cacheBytes: ByteArray,
): Pair<TextState, Notice?> {
    val notice = checkIdentity(models, file, saved.identity)
    try {
        check(saved, models.loaded.bundle)
        val restored = TextState(cacheOf(cacheBytes, text.cache), saved.costs, DecoderState())
        restored.lengths = saved.lengths.copy()
        restored.turns = saved.turns
        restored.asked = saved.asked
        restored.system = saved.system
        restored.tools = saved.tools
        restored.drops = models.drops
        saved.answer?.let { restored.answer = replay(models, restored, it) }
        return restored to notice
    } catch (error: SessionFileException) {
        throw refused(file, error)
    } catch (error: ValueError) {
        throw refused(file, SessionFileException("state", error.message.orEmpty()))
    }
}

/** The last generation of the file, which `Session.resume` continues. */
private fun replay(models: SessionModels, text: TextState, saved: SavedAnswer): Generation {
    text.random = SplitMix64(saved.random)
    val emitted = Emitted(saved.output, saved.logprobs, saved.stopReason)
    val context = contextOf(models, saved)
    val generation = generateFromState(models, text, saved.config, saved.prompt, context, emitted)
    val reason = if (saved.stopReason == StopReason.CANCELLED) null else saved.stopReason
    if (generation.end() != reason) throw ValueError("its output ended in another way than it says")
    if (text.tools != null && saved.stopReason != null) {
        models.loaded.bundle.prompt.toolForm?.let { generation.readCalls(it.calls) }
    }
    return generation
}

/** The text in draft ids; it is made where a session without a drafter saved the file. */
internal fun contextOf(models: SessionModels, saved: SavedAnswer): IntArray {
    if (saved.context != null) return saved.context
    if (!saved.config.asksDrafter || !models.hasDrafter) return IntArray(0)
    return models.loaded.draftPrompt(saved.prompt + saved.output)
}

/**
 * Refuses a state of other weights; a notice where only the drafter's adapter differs.
 *
 * With another adapter of the target the text would continue with another distribution. Another adapter of the drafter
 * changes the drafts, and so which text a seed gives above temperature 0, but no distribution: this is not a reason to
 * lose a conversation.
 */
private fun checkIdentity(models: SessionModels, file: File, saved: Identity): Notice? {
    val bundle = models.loaded.bundle
    if (saved.copy(adapters = emptyMap()) != identityOf(bundle)) {
        val message = "$file was saved with another bundle, or other graphs of it, than ${bundle.path.name}"
        throw SessionFileException("foreign_bundle", message, REMEDY)
    }
    var notice: Notice? = null
    for (role in listOf(Role.TARGET, Role.DRAFTER)) {
        val before = saved.adapters[role]
        val now = models.adapters[role]?.digest
        if (before == now) continue
        val message = "$file was saved with ${named(before)} of the ${role.word} and this session uses ${named(now)}"
        val remedy = "use the adapter that it was saved with"
        if (role == Role.TARGET) throw SessionFileException("foreign_adapter", message, remedy)
        val effect = "sampled text may differ from what it would have been, its distribution does not"
        notice = Notice(NoticeKind.OTHER_ADAPTER, "$message: $effect; for the same text $remedy")
    }
    return notice
}

private fun named(digest: String?) = if (digest == null) "no adapter" else "adapter ${digest.take(12)}"

/** The cache in some bytes, with the capacity of the cache that it replaces, and room for all entries. */
private fun cacheOf(data: ByteArray, old: NgramCache): NgramCache {
    val table = try {
        decode(data).also { checkAgainst(it, old.map) }
    } catch (error: CacheFileException) {
        throw SessionFileException("cache", "its n-gram cache is refused: ${error.message}")
    }
    val capacity = maxOf(old.capacity, table.size) // nothing is evicted that the saved session had
    return NgramCache.ofTable(table, old.map, capacity)
}

/** Refuses ids outside the vocabularies and a text that no context of this bundle holds. */
private fun check(saved: SavedSession, bundle: Bundle) {
    val answer = saved.answer
    val ofTarget = saved.turns.map { it.answer } + listOfNotNull(answer?.prompt, answer?.output)
    checkIds("target", ofTarget, bundle.target.vocabSize)
    checkIds("draft", listOfNotNull(answer?.context), bundle.drafter.vocabSize)
    if (answer == null) return
    val scored = maxOf(0, answer.output.size - if (answer.stopReason == null) 0 else 1)
    val limit = bundle.target.kv.maxLength
    if (answer.prompt.size + scored > limit) {
        val message = "its text has ${answer.prompt.size + scored} tokens and the context holds $limit"
        throw SessionFileException("context", message)
    }
}

private fun checkIds(name: String, lists: List<IntArray>, size: Int) {
    val largest = lists.maxOfOrNull { ids -> ids.maxOrNull() ?: 0 } ?: 0
    if (largest >= size) {
        throw SessionFileException("id_range", "it holds $name id $largest, outside 0..${size - 1}")
    }
}
