package io.omnidraft.session.state

import io.omnidraft.Defaults
import io.omnidraft.OmniDraftException
import io.omnidraft.SessionFileException
import io.omnidraft.StopReason
import io.omnidraft.decoding.Costs
import io.omnidraft.decoding.LengthState
import io.omnidraft.device.checkCosts
import io.omnidraft.disk.ByteWriter
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.array
import io.omnidraft.disk.at
import io.omnidraft.disk.bitsOf
import io.omnidraft.disk.crc32
import io.omnidraft.disk.dump
import io.omnidraft.disk.hex64
import io.omnidraft.disk.hexadecimal
import io.omnidraft.disk.ids
import io.omnidraft.disk.long
import io.omnidraft.disk.mapping
import io.omnidraft.disk.parse
import io.omnidraft.disk.real
import io.omnidraft.disk.text
import io.omnidraft.disk.u32
import io.omnidraft.models.Role
import io.omnidraft.parts.BY_UTF8

/* The file of a session, format version 7: spec/09-session.md. */

internal val SESSION_MAGIC: ByteArray = byteArrayOf(0x89.toByte(), 0x4f, 0x44, 0x53, 0x4e, 0x0d, 0x0a, 0x1a)
internal const val SESSION_VERSION = 7L

/** Bytes of a header: magic, version, reserved, bytes of the state and of the cache, CRC-32 of each. */
internal const val SESSION_HEADER_BYTES = 32
private const val MAX_STATE_BYTES = 1L shl 24
private const val MAX_CACHE_BYTES = 1L shl 28

internal const val MAX_SESSION_BYTES: Long = SESSION_HEADER_BYTES + MAX_STATE_BYTES + MAX_CACHE_BYTES
private const val MAX_TURNS = 1 shl 16
private const val MAX_RESULTS = 1 shl 10
private const val MAX_GRAPH_FILES = 256
private const val MAX_COUNT = 1e9 // of a decayed count
private const val FINGERPRINT_DIGITS = 64

/** The bytes of a session file: equal values give equal bytes. */
internal fun encodeSession(saved: SavedSession, cache: ByteArray): ByteArray {
    val state = dump(stateOf(saved))
    checkSizes(state.size.toLong(), cache.size.toLong())
    return sessionFile(state, cache)
}

internal fun sessionFile(state: ByteArray, cache: ByteArray): ByteArray {
    val out = ByteWriter(SESSION_HEADER_BYTES + state.size + cache.size)
    out.put(SESSION_MAGIC).u32(SESSION_VERSION).u32(0).u32(state.size.toLong()).u32(cache.size.toLong())
    return out.u32(crc32(state)).u32(crc32(cache)).put(state).put(cache).bytes()
}

internal fun decodeSession(data: ByteArray): Pair<SavedSession, ByteArray> {
    val (state, cache) = sections(data)
    val value = try {
        parse(state)
    } catch (error: ValueError) {
        throw SessionFileException("state", "its state is not JSON (${error.message?.take(80)})")
    }
    val saved = try {
        savedOf(value)
    } catch (error: ValueError) {
        throw invalid(error)
    } catch (error: OmniDraftException) {
        throw invalid(error)
    }
    if (!dump(stateOf(saved)).contentEquals(state)) {
        throw SessionFileException("state", "its state is not written in the one way that there is")
    }
    return saved to cache
}

private fun invalid(error: Exception) =
    SessionFileException("state", "its state has an invalid field (${error.message?.take(80)})")

private fun sections(data: ByteArray): Pair<ByteArray, ByteArray> {
    val known = minOf(data.size, SESSION_MAGIC.size)
    if (data.isEmpty() || (0 until known).any { data[it] != SESSION_MAGIC[it] }) {
        throw SessionFileException("not_a_session", "it is not a session file")
    }
    if (data.size < SESSION_HEADER_BYTES) {
        val message = "it has ${data.size} bytes and a header has $SESSION_HEADER_BYTES"
        throw SessionFileException("truncated", message)
    }
    val (version, reserved) = u32(data, 8) to u32(data, 12)
    if (version != SESSION_VERSION) {
        val message = "it has version $version and this omnidraft reads version $SESSION_VERSION"
        throw SessionFileException("version", message)
    }
    if (reserved != 0L) throw SessionFileException("reserved", "its reserved field is $reserved instead of 0")
    return sectionsOf(data, u32(data, 16), u32(data, 20))
}

private fun sectionsOf(data: ByteArray, stateBytes: Long, cacheBytes: Long): Pair<ByteArray, ByteArray> {
    checkSizes(stateBytes, cacheBytes)
    val expected = SESSION_HEADER_BYTES + stateBytes + cacheBytes
    if (data.size < expected) throw SessionFileException("truncated", "it has ${data.size} bytes of $expected")
    if (data.size > expected) {
        throw SessionFileException("trailing", "it has ${data.size - expected} bytes too many")
    }
    val end = SESSION_HEADER_BYTES + stateBytes.toInt()
    if (crc32(data, SESSION_HEADER_BYTES, end) != u32(data, 24) || crc32(data, end, data.size) != u32(data, 28)) {
        throw SessionFileException("checksum", "its bytes were changed (a CRC-32 does not match)")
    }
    return data.copyOfRange(SESSION_HEADER_BYTES, end) to data.copyOfRange(end, data.size)
}

private fun checkSizes(stateBytes: Long, cacheBytes: Long) {
    val sizes = listOf(Triple("state", stateBytes, MAX_STATE_BYTES), Triple("cache", cacheBytes, MAX_CACHE_BYTES))
    for ((name, size, most) in sizes) {
        if (size > most) throw SessionFileException("limits", "its $name has $size bytes, more than $most")
    }
}

// The state as values of JSON, in the order of the tables of spec/09-session.md, and back.

private fun stateOf(saved: SavedSession): Map<String, Any?> = linkedMapOf(
    "omnidraft" to saved.omnidraft,
    "identity" to linkedMapOf(
        "draft_fingerprint" to saved.identity.draftFingerprint,
        "target_fingerprint" to saved.identity.targetFingerprint,
        "graphs" to saved.identity.graphs.toSortedMap(BY_UTF8),
        "drafter_adapter" to saved.identity.adapters[Role.DRAFTER],
        "target_adapter" to saved.identity.adapters[Role.TARGET],
    ),
    "costs" to costsObject(saved.costs),
    "draft_length" to lengthsObject(saved.lengths),
    "system" to saved.system,
    "tools" to saved.tools,
    "turns" to saved.turns.map {
        linkedMapOf("message" to it.message, "results" to it.results, "answer" to longs(it.answer))
    },
    "message" to saved.asked?.message,
    "results" to saved.asked?.results.orEmpty(),
    "answer" to saved.answer?.let { answerObject(it) },
)

private fun longs(ids: IntArray): List<Long> = ids.map { it.toLong() }

private fun savedOf(value: Any?): SavedSession {
    val state = mapping(value)
    val results = results(state.at("results"))
    val saved = SavedSession(
        omnidraft = text(state.at("omnidraft"), 64),
        identity = identityOf(mapping(state.at("identity"))),
        costs = costsOf(mapping(state.at("costs"))),
        lengths = lengthsOf(mapping(state.at("draft_length"))),
        turns = array(state.at("turns"), MAX_TURNS).map { turnOf(mapping(it)) },
        asked = state.at("message")?.let { Turn(text(it), results = results) },
        answer = state.at("answer")?.let { answerOf(mapping(it)) },
        system = state.at("system")?.let { text(it) },
        tools = state.at("tools")?.let { text(it) },
    )
    checkTurns(saved, results)
    return saved
}

/** The rules between the fields of a conversation. */
private fun checkTurns(saved: SavedSession, results: List<String>) {
    if (saved.asked == null && saved.turns.isNotEmpty() && saved.answer != null) {
        throw ValueError("the last answer of a conversation has no message")
    }
    if ((saved.asked != null && saved.answer == null) || saved.system == "") {
        throw ValueError("a message has no answer, or the system prompt is empty")
    }
    val asked = saved.turns + listOfNotNull(saved.asked)
    val isLost = saved.asked == null && results.isNotEmpty()
    if (isLost || saved.tools == "" || asked.firstOrNull()?.results?.isNotEmpty() == true) {
        throw ValueError("results answer nothing, or the tools are empty")
    }
    if (asked.any { it.message.isNotEmpty() && it.results.isNotEmpty() }) {
        throw ValueError("a turn has a message and results")
    }
}

private fun identityOf(value: Map<String, Any?>): Identity {
    val adapters = LinkedHashMap<Role, String>()
    for (role in listOf(Role.DRAFTER, Role.TARGET)) {
        value.at("${role.word}_adapter")?.let { adapters[role] = hexadecimal(it, FINGERPRINT_DIGITS) }
    }
    val graphs = LinkedHashMap<String, String>()
    for ((name, digest) in mapping(value.at("graphs"), MAX_GRAPH_FILES)) {
        graphs[text(name, 512)] = hexadecimal(digest, FINGERPRINT_DIGITS)
    }
    return Identity(
        hexadecimal(value.at("draft_fingerprint"), FINGERPRINT_DIGITS),
        hexadecimal(value.at("target_fingerprint"), FINGERPRINT_DIGITS),
        graphs,
        adapters,
    )
}

private fun reals(numbers: DoubleArray): List<String> = numbers.map { bitsOf(it) }

private fun costsObject(costs: Costs): Map<String, Any?> = linkedMapOf(
    "target" to reals(costs.target),
    "draft" to bitsOf(costs.draft),
    "host" to bitsOf(costs.host),
    "acceptance" to bitsOf(costs.acceptance),
)

private fun costsOf(value: Map<String, Any?>): Costs {
    val target = array(value.at("target")).map { number(it) }.toDoubleArray()
    val costs = Costs(target, number(value.at("draft")), number(value.at("host")), number(value.at("acceptance")))
    checkCosts(costs)
    return costs
}

private fun lengthsObject(lengths: LengthState): Map<String, Any?> = linkedMapOf(
    "seen" to reals(lengths.seen),
    "evaluated" to reals(lengths.evaluated),
    "accepted" to reals(lengths.accepted),
    "drafts" to bitsOf(lengths.drafts),
    "targets" to bitsOf(lengths.targets),
    "compared" to reals(lengths.compared),
    "agreed" to reals(lengths.agreed),
    "idle" to lengths.idle,
    "unread" to lengths.unread,
    "written" to lengths.written,
    "share" to bitsOf(lengths.share),
)

private fun lengthsOf(value: Map<String, Any?>): LengthState {
    val empty = LengthState()
    val (evaluated, accepted) = trials(value.at("evaluated"), value.at("accepted"), empty.evaluated.size)
    val (compared, agreed) = trials(value.at("compared"), value.at("agreed"), empty.compared.size)
    return LengthState(
        counts(value.at("seen"), empty.seen.size),
        evaluated,
        accepted,
        real(value.at("drafts"), 0.0, MAX_COUNT),
        real(value.at("targets"), 0.0, MAX_COUNT),
        compared,
        agreed,
        long(value.at("idle"), 0),
        long(value.at("unread"), 0),
        long(value.at("written"), 0),
        real(value.at("share"), Defaults.DRAFT_LENGTH_LAST_SHARE, Defaults.DRAFT_LENGTH_FIRST_SHARE),
    )
}

private fun counts(values: Any?, count: Int): DoubleArray {
    val counts = array(values, count).map { real(it, 0.0, MAX_COUNT) }.toDoubleArray()
    if (counts.size != count) throw ValueError("${counts.size} counts of the draft length, not $count")
    return counts
}

/** Two lists of [count] decayed counts, of trials and of those that succeeded. */
private fun trials(trials: Any?, successes: Any?, count: Int): Pair<DoubleArray, DoubleArray> {
    val (a, b) = listOf(trials, successes).map { counts(it, count) }
    if (a.indices.any { b[it] > a[it] }) throw ValueError("more successes than trials")
    return a to b
}

private fun turnOf(value: Map<String, Any?>) =
    Turn(text(value.at("message")), ids(value.at("answer")), results(value.at("results")))

private fun results(value: Any?): List<String> = array(value, MAX_RESULTS).map { text(it) }

private fun answerObject(answer: SavedAnswer): Map<String, Any?> = linkedMapOf(
    "config" to configObject(answer.config),
    "prompt" to longs(answer.prompt),
    "output" to longs(answer.output),
    "logprobs" to reals(answer.logprobs),
    "context" to answer.context?.let { longs(it) },
    "random" to hex64(answer.random),
    "stop_reason" to answer.stopReason?.word,
)

private val SAVED_REASONS = StopReason.values().filter { it != StopReason.COMPLETE }.toTypedArray()

private fun answerOf(value: Map<String, Any?>): SavedAnswer {
    val answer = SavedAnswer(
        config = configOf(mapping(value.at("config"))),
        prompt = ids(value.at("prompt")),
        output = ids(value.at("output")),
        context = value.at("context")?.let { ids(it) },
        random = word(value.at("random")),
        stopReason = value.at("stop_reason")?.let { named(it, SAVED_REASONS) { reason -> reason.word } },
        logprobs = array(value.at("logprobs")).map { real(it, -1e9, 1e-6) }.toDoubleArray(),
    )
    if (answer.logprobs.size != (if (answer.config.logprobs) answer.output.size else 0)) {
        throw ValueError("logprobs")
    }
    if (answer.prompt.isEmpty() || answer.output.size > answer.config.maxNewTokens) {
        throw ValueError("prompt or output")
    }
    if (answer.stopReason == null && answer.output.size == answer.config.maxNewTokens) {
        throw ValueError("output is complete")
    }
    if (answer.context?.isNotEmpty() == true && !answer.config.asksDrafter) throw ValueError("a drafter's context")
    return answer
}
