package io.omnidraft.sync

import io.omnidraft.Defaults
import io.omnidraft.SignatureException
import io.omnidraft.SyncException
import io.omnidraft.bundle.SIGNATURE_BYTES
import io.omnidraft.bundle.Signature
import io.omnidraft.bundle.decode as decodeSignature
import io.omnidraft.bundle.encode as encodeSignature
import io.omnidraft.bundle.faultOf
import io.omnidraft.bundle.keyId
import io.omnidraft.bundle.publicKeyOf
import io.omnidraft.bundle.signatureOf
import io.omnidraft.disk.bytesOf
import io.omnidraft.models.AdapterPlace
import java.nio.ByteBuffer
import java.util.Calendar.DAY_OF_MONTH
import java.util.GregorianCalendar
import java.util.Locale
import java.util.TimeZone

/* The signed file of a push or a release: a signature, lines that name the files, and the files (spec/15-sync.md). */

private const val VERSION = "1"
private const val SHOWN_TITLE = 40
private const val NEWLINE: Byte = 0x0a

internal enum class SignedKind(val title: String) { PUSH("omnidraft.push"), RELEASE("omnidraft.release") }

/** A pair of models. Devices of one channel can use each other's adapters and caches. */
internal data class Channel(
    val base: String, // fingerprint of the drafter's checkpoint, to which adapters are added
    val target: String, // fingerprint of the target's checkpoint
    val draftTokenizer: String, // fingerprint of the drafter's tokenizer
    val targetTokenizer: String, // fingerprint of the target's tokenizer
) {
    val lines: String
        get() = "base $base\ntarget $target\ndraft_tokenizer $draftTokenizer\ntarget_tokenizer $targetTokenizer\n"

    /** Its name in a store: SHA-256 of its lines, 64 hexadecimal digits. */
    val id: String get() = digestOf(ascii(lines))

    /** Refuse another channel. */
    fun check(channel: Channel, what: String) {
        checkSame("drafter's weights", base, channel.base, what)
        checkSame("target's weights", target, channel.target, what)
        checkSame("drafter's tokenizer", draftTokenizer, channel.draftTokenizer, what)
        checkSame("target's tokenizer", targetTokenizer, channel.targetTokenizer, what)
    }

    private fun checkSame(name: String, ours: String, theirs: String, what: String) {
        if (ours == theirs) return
        throw SyncException(
            "foreign",
            "$what is of a $name ${theirs.take(12)} and this bundle's is ${ours.take(12)}",
            "use it with the pair of models that it was made for",
        )
    }
}

internal data class StoredFile(val sha256: String, val size: Long) {
    override fun toString(): String = "$sha256 $size"

    companion object {
        fun of(data: ByteArray): StoredFile = StoredFile(digestOf(data), data.size.toLong())
    }
}

internal data class SignedRecord(
    val kind: SignedKind,
    val key: String, // the signer's public key, 64 hexadecimal digits; of a push, the identity of the device
    val channel: Channel,
    val number: Long, // higher than that of every earlier record of this key
    val expires: String, // ISO 8601 in UTC; it is refused after that
    val accepted: Long = 0, // target tokens that drafts proposed and the target accepted; the weight of the adapter
    val adapter: StoredFile? = null, // of the drafter; null for none
    val cache: StoredFile? = null, // n-grams; null for none
    val traces: List<StoredFile> = emptyList(), // segments, the oldest first; of a push alone
) {
    val text: ByteArray get() = ascii(
        "${kind.title} $VERSION\nkey $key\n${channel.lines}number $number\nexpires $expires\n" +
            "accepted $accepted\nadapter ${shownFile(adapter)}\ncache ${shownFile(cache)}\n" +
            traces.joinToString("") { "trace $it\n" } + "\n",
    )

    /** The files in the order of their bytes. */
    val files: List<StoredFile> get() = listOfNotNull(adapter, cache) + traces

    val size: Long get() = SIGNATURE_BYTES + text.size + files.sumOf { it.size }
}

/** A verified file: its record, and the bytes of the files that it names. */
internal class Signed(val record: SignedRecord, val adapter: ByteArray?, val cache: ByteArray?, val traces: List<ByteArray>)

internal fun writeSigned(record: SignedRecord, files: List<ByteArray>, seed: ByteArray): ByteArray {
    parseRecord(record.text, record.kind) // what a reader would refuse is not written
    val key = publicKeyOf(seed)
    val signature = encodeSignature(Signature(keyId(key), signatureOf(record.text, seed)))
    val whole = ByteBuffer.allocate(record.size.toInt()).put(signature).put(record.text)
    files.forEach { whole.put(it) }
    return whole.array()
}

/**
 * A whole file, verified.
 *
 * @param publicKey that must have signed it, 32 bytes; null takes the key that the record names.
 */
internal fun readSigned(data: ByteArray, kind: SignedKind, publicKey: ByteArray?): Signed {
    val record = verifiedRecord(data, kind, publicKey)
    if (data.size.toLong() != record.size) {
        val message = "the ${kind.shown} has ${data.size} bytes where ${record.size} were announced"
        throw SyncException("size", message, "try again, or ask who put it there")
    }
    var at = SIGNATURE_BYTES + record.text.size
    val parts = record.files.map { file ->
        val part = data.copyOfRange(at, at + file.size.toInt())
        at += part.size
        if (StoredFile.of(part) != file) {
            val message = "the ${kind.shown} is damaged (the SHA-256 of a file is not ${file.sha256.take(12)})"
            throw SyncException("checksum", message, "try again, or ask who put it there")
        }
        part
    }.toMutableList()
    val adapter = if (record.adapter == null) null else parts.removeAt(0)
    val cache = if (record.cache == null) null else parts.removeAt(0)
    return Signed(record, adapter, cache, parts)
}

private fun verifiedRecord(data: ByteArray, kind: SignedKind, publicKey: ByteArray?): SignedRecord {
    val signature = try {
        decodeSignature(data.copyOf(minOf(data.size, SIGNATURE_BYTES)))
    } catch (_: SignatureException) {
        throw malformed(kind, "does not begin with a signature")
    }
    val record = parseRecord(textOf(data), kind)
    val key = bytesOf(record.key)
    if (publicKey != null && !publicKey.contentEquals(key)) {
        val message = "the ${kind.shown} was signed with key ${keyId(key)} and the public key given is ${keyId(publicKey)}"
        throw SyncException("other_key", message, "give its signer's key, or do not use it")
    }
    if (faultOf(record.text, signature, key) != null) {
        val message = "the ${kind.shown} was changed after it was signed"
        throw SyncException("wrong_signature", message, "do not use it, and tell who gave it")
    }
    return record
}

/** The lines with their empty line; all that may be lines where there is none. */
private fun textOf(data: ByteArray): ByteArray {
    val end = minOf(data.size, SIGNATURE_BYTES + Defaults.SYNC_MAX_TEXT_BYTES)
    for (at in SIGNATURE_BYTES + 1 until end) {
        if (data[at] == NEWLINE && data[at - 1] == NEWLINE) return data.copyOfRange(SIGNATURE_BYTES, at + 1)
    }
    return data.copyOfRange(SIGNATURE_BYTES, end)
}

/** The record of the signed lines, whose signature nobody has verified. */
internal fun parseRecord(text: ByteArray, kind: SignedKind): SignedRecord {
    checkTitle(text, kind)
    val record = try {
        parsed(RecordReader(text), kind)
    } catch (_: MalformedRecord) {
        throw malformed(kind, "is not written as spec/15-sync.md says")
    }
    if (record.files.isEmpty()) throw malformed(kind, "has no files")
    if (kind == SignedKind.RELEASE && record.traces.isNotEmpty()) throw malformed(kind, "has traces")
    if (text.size > Defaults.SYNC_MAX_TEXT_BYTES || record.size > Defaults.SYNC_MAX_BYTES) {
        throw SyncException("too_large", "the ${kind.shown} has more than ${Defaults.SYNC_MAX_BYTES} bytes", "leave files out")
    }
    return record
}

private fun checkTitle(text: ByteArray, kind: SignedKind) {
    val line = String(text, 0, minOf(text.size, SHOWN_TITLE), Charsets.ISO_8859_1).substringBefore('\n')
    if (line.substringBeforeLast(' ', "") != kind.title) {
        throw SyncException("other_kind", "the file is not a ${kind.shown}", "give what `omnidraft sync` wrote")
    }
    if (line.substringAfterLast(' ') != VERSION) {
        throw SyncException("version", "the ${kind.shown} has another format version", "update omnidraft")
    }
}

private fun parsed(reader: RecordReader, kind: SignedKind): SignedRecord {
    reader.line("${kind.title} $VERSION")
    val record = SignedRecord(
        kind = kind,
        key = hash(reader.value("key")),
        channel = reader.channel(),
        number = number(reader.value("number")),
        expires = time(reader.value("expires")),
        accepted = count(reader.value("accepted")),
        adapter = fileOrNone(reader.value("adapter")),
        cache = fileOrNone(reader.value("cache")),
        traces = generateSequence { reader.valueOrNull("trace") }.map { file(it) }.toList(),
    )
    reader.line("")
    reader.end()
    return record
}

private val SignedKind.shown: String get() = title.substringAfter('.')

private fun malformed(kind: SignedKind, why: String) =
    SyncException("malformed", "the ${kind.shown} $why", "ask its writer for another")

/** The SHA-256 of the signed bytes. */
internal val SignedRecord.digest: String get() = digestOf(text)

/** Refuse a record of other models, or one that has expired. */
internal fun checkCurrent(record: SignedRecord, channel: Channel, now: String = utc()) {
    channel.check(record.channel, "the ${record.kind.shown}")
    if (record.expires < now) {
        val message = "the ${record.kind.shown} was valid until ${record.expires} and it is $now"
        throw SyncException("expired", message, "check this device's clock, or ask for a new one")
    }
}

internal fun channelOfBundle(place: AdapterPlace): Channel {
    val base = place.drafter.fingerprint
    val target = place.target.fingerprint
    if (base == null || target == null) {
        val role = if (base == null) "drafter" else "target"
        throw SyncException(
            "no_fingerprint",
            "${place.name} does not name the weights of its $role, so nothing can be checked to fit it",
            "run `omnidraft export` again from the checkpoints",
        )
    }
    return Channel(base, target, place.draftFingerprint, place.targetFingerprint)
}

/** The time in [days] days from now, ISO 8601 in UTC. */
internal fun utc(days: Int = 0): String {
    val time = GregorianCalendar(TimeZone.getTimeZone("UTC"), Locale.ROOT).apply { add(DAY_OF_MONTH, days) }
    return "%1\$tFT%1\$tTZ".format(Locale.ROOT, time)
}
