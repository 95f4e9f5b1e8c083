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

/*
 * A release: an adapter and a cache that the training side published for a pair of models (spec/15-sync.md, release).
 *
 * The file is a signature (spec/10-signing.md) over the lines that follow it. A release has exactly one form in bytes,
 * and the reader refuses every other input with a named fault.
 */

/** Bytes of the file of a release at most; the longest possible has 819. */
internal const val MOST_RELEASE_BYTES = Defaults.SYNC_MAX_RELEASE_BYTES

private const val RELEASE_VERSION = "1"
private const val RELEASE_TITLE = "omnidraft.release "
private const val SHOWN = 20

/**
 * The lines of a release.
 *
 * @property number higher than that of every earlier release.
 * @property channel the pair of models.
 * @property created ISO 8601 in UTC.
 * @property expires ISO 8601 in UTC; a device refuses the release after it, so that a store cannot hold back newer
 *   ones.
 * @property adapter of the drafter; null for none.
 * @property cache n-grams; null for none. A release has an adapter, a cache or both.
 * @property accepted accepted tokens, the weights of the average; 0 where the adapter was trained.
 * @property devices that took part.
 */
internal data class Release(
    val number: Long,
    val channel: Channel,
    val created: String,
    val expires: String,
    val adapter: StoredFile?,
    val cache: StoredFile?,
    val accepted: Long = 0,
    val devices: Long = 0,
) {
    /** The signed lines. */
    val text: ByteArray
        get() = ascii(
            "$RELEASE_TITLE$RELEASE_VERSION\nnumber $number\n${channel.lines}created $created\nexpires $expires\n" +
                "adapter ${shownFile(adapter)}\ncache ${shownFile(cache)}\naccepted $accepted\ndevices $devices\n",
        )
}

/** A release, and the id of the key that its signature was checked with; null where it was not checked. */
internal class SignedRelease(val release: Release, val keyId: String?)

/** The file of a release. */
internal fun encodeRelease(release: Release, signature: Signature): ByteArray =
    encodeSignature(signature) + release.text

/**
 * The release in a file.
 *
 * @param publicKey 32 bytes; null leaves the signature unchecked.
 * @throws SyncException `too_large`, `malformed`, `other_key`, `wrong_signature`, `not_a_release`, `version`.
 */
internal fun decodeRelease(data: ByteArray, publicKey: ByteArray?): SignedRelease {
    if (data.size > MOST_RELEASE_BYTES) {
        throw SyncException(
            "too_large",
            "the release has more than $MOST_RELEASE_BYTES bytes",
            "ask its publisher for another",
        )
    }
    val signature = signatureOf(data)
    val text = data.copyOfRange(SIGNATURE_BYTES, data.size)
    if (publicKey != null) checkSignature(text, signature, publicKey) // before its content is used
    return SignedRelease(parseRelease(text), if (publicKey == null) null else signature.keyId)
}

private fun signatureOf(data: ByteArray): Signature = try {
    decodeSignature(data.copyOf(minOf(data.size, SIGNATURE_BYTES)))
} catch (_: SignatureException) {
    throw SyncException("malformed", "the release does not begin with a signature", "ask its publisher for another")
}

private fun checkSignature(text: ByteArray, signature: Signature, publicKey: ByteArray) {
    val fault = faultOf(text, signature, publicKey) ?: return
    if (fault == "other_key") {
        throw SyncException(
            fault,
            "the release was signed with key ${signature.keyId} and the public key given is ${keyId(publicKey)}",
            "give its signer's key, or do not use this store",
        )
    }
    throw SyncException(
        fault,
        "the release was changed after it was signed",
        "do not use this store, and tell its owner",
    )
}

/**
 * Parse the signed lines of a release.
 *
 * @throws SyncException `not_a_release`, `version`, `malformed` or `too_large`.
 */
internal fun parseRelease(text: ByteArray): Release {
    val line = firstLine(text, text.size)
    if (!line.startsWith(RELEASE_TITLE)) {
        throw SyncException("not_a_release", "the file is not a release", "give a store that `omnidraft sync` wrote")
    }
    if (line != RELEASE_TITLE + RELEASE_VERSION) throw otherVersion(line)
    val release = try {
        lines(RecordReader(text))
    } catch (_: MalformedRecord) {
        throw malformed()
    }
    if (listOfNotNull(release.adapter, release.cache).any { it.size > MAX_FILE }) {
        throw SyncException(
            "too_large",
            "the release has a file of more than $MAX_FILE bytes",
            "ask for a smaller one",
        )
    }
    return release
}

private fun lines(reader: RecordReader): Release {
    reader.line(RELEASE_TITLE + RELEASE_VERSION)
    val release = Release(
        number = number(reader.value("number")),
        channel = reader.channel(),
        created = time(reader.value("created")),
        expires = time(reader.value("expires")),
        adapter = fileOrNone(reader.value("adapter")),
        cache = fileOrNone(reader.value("cache")),
        accepted = count(reader.value("accepted")),
        devices = count(reader.value("devices")),
    )
    reader.end()
    if (release.adapter == null && release.cache == null) throw MalformedRecord()
    return release
}

private fun otherVersion(line: String): SyncException {
    val shown = line.drop(RELEASE_TITLE.length).take(SHOWN)
    return SyncException(
        "version",
        "the release has format version $shown and this omnidraft reads $RELEASE_VERSION",
        "update omnidraft",
    )
}

private fun malformed() =
    SyncException("malformed", "the release is not written as spec/15-sync.md says", "ask its publisher for another")

/**
 * The newest release that a device verified.
 *
 * @property number of the release.
 * @property sha256 of its signed lines.
 */
internal data class Seen(val number: Long, val sha256: String) {
    companion object {
        /** What a device remembers of a release. */
        fun of(release: Release): Seen = Seen(release.number, digestOf(release.text))
    }
}

/**
 * Refuse a release that a device must not take.
 *
 * @param release from [decodeRelease].
 * @param channel of the device's bundle.
 * @param seen the newest release that the device verified; null before the first.
 * @param now ISO 8601 in UTC.
 * @throws SyncException `foreign`, `older`, `conflict` or `expired`.
 */
internal fun checkRelease(release: Release, channel: Channel, seen: Seen?, now: String) {
    channel.check(release.channel, "release ${release.number}")
    if (seen != null && release.number < seen.number) {
        throw SyncException(
            "older",
            "the store offers release ${release.number} and this device has seen ${seen.number}: an old release was " +
                "put back",
            "do not use this store before its publisher has made a newer release",
        )
    }
    if (seen != null && release.number == seen.number && digestOf(release.text) != seen.sha256) {
        throw SyncException(
            "conflict",
            "the store's release ${release.number} is not the one that this device has seen under that number",
            "tell its publisher, who has to publish the next number",
        )
    }
    if (release.expires < now) {
        throw SyncException(
            "expired",
            "release ${release.number} was valid until ${release.expires} and it is $now",
            "check this device's clock, or ask its publisher for a new one",
        )
    }
}
