package io.omnidraft.sync

import io.omnidraft.PullOutcome
import io.omnidraft.SyncException
import io.omnidraft.bundle.readPublicKey
import io.omnidraft.learning.AdapterComparison
import io.omnidraft.learning.step.heapHolds
import io.omnidraft.models.Adapter
import io.omnidraft.models.AdapterPlace
import io.omnidraft.models.Role
import io.omnidraft.models.decodeAdapter
import io.omnidraft.models.encodeAdapter
import io.omnidraft.models.fit
import io.omnidraft.vocab.CAPACITY
import io.omnidraft.vocab.CacheTable
import io.omnidraft.vocab.VocabMap
import io.omnidraft.vocab.checkAgainst
import io.omnidraft.vocab.decode as decodeCache
import io.omnidraft.vocab.encode as encodeCache
import io.omnidraft.vocab.evictionOrder
import io.omnidraft.vocab.merge
import io.omnidraft.vocab.readTable
import io.omnidraft.vocab.writeTable
import java.io.File

/*
 * Fetch the newest release on a device, verify it, compare its adapter, and switch or stay (spec/15-sync.md).
 *
 * All files are read and checked beside those in use; replacing one pointer file is the switch. A kill, a broken
 * connection or a full disk leaves the files in use as they were. Nothing is sent.
 */

/** Compares the adapter in use (null for none) with the offered one. */
internal fun interface Trial {
    fun compare(current: Adapter?, offered: Adapter): AdapterComparison
}

/**
 * The device that pulls.
 *
 * @property models both models of the device's bundle.
 * @property vocabMap of the bundle.
 * @property into the directory of `Installed.kt`.
 * @property publicKey of the signer, as an app gives it; null leaves signatures unchecked, which is allowed where none
 *   was checked before.
 * @property trial compares adapters on recent traces; null takes the release without a comparison.
 * @property own an adapter that the device learned and has in use; null for the adapter in [into].
 * @property cache the device's own n-grams, into which those of the release are merged; null for none.
 * @property again try a release again that was refused before.
 */
internal class Device(
    val models: AdapterPlace,
    val vocabMap: VocabMap,
    val into: File,
    val publicKey: ByteArray? = null,
    val trial: Trial? = null,
    val own: Adapter? = null,
    val cache: File? = null,
    val again: Boolean = false,
) {
    /** The channel of the bundle. */
    val channel: Channel get() = channelOfBundle(models)
}

/**
 * The result of a pull.
 *
 * @property outcome of the release's adapter.
 * @property release the newest release.
 * @property comparison of the offered adapter with the one in use; null where there was no trial.
 * @property adapter the file in use now; null for the drafter without an adapter.
 * @property learned n-grams that were new to the device's own cache; null without a cache.
 * @property key id of the key that the signature was checked with; null where it was not checked.
 */
internal class Pulled(
    val outcome: PullOutcome,
    val release: Release,
    val comparison: AdapterComparison?,
    val adapter: File?,
    val learned: Int?,
    val key: String?,
)

/** The state after a release, and what happened to its adapter. */
private class Decision(val state: Installed, val outcome: PullOutcome, val comparison: AdapterComparison? = null)

/** A state, and the adapter in use in it. */
private class InUse(val state: Installed, val adapter: Adapter?)

/**
 * Take the newest release if it is valid and its adapter is better.
 *
 * @param store to read from.
 * @param device that pulls.
 * @param now ISO 8601 in UTC.
 * @throws SyncException the release is refused, the store cannot be reached, or the directory cannot be written.
 * @throws io.omnidraft.AdapterException an adapter of the release or of the device is refused.
 * @throws io.omnidraft.CacheFileException a cache of the release or of the device is refused.
 */
internal fun pull(store: Store, device: Device, now: String = utc()): Pulled = claimedDirectory(device.into) {
    val before = stateOf(device)
    val signed = decodeRelease(latest(store, device), device.publicKey?.let { readPublicKey(it) })
    val release = signed.release
    checkRelease(release, device.channel, before.seen, now)
    // Kept at once: who withholds a file of this release cannot offer an older release afterwards.
    val verified = before.copy(seen = Seen.of(release), key = signed.keyId ?: before.key)
    installIfNew(device.into, verified)
    val offered = filesOf(store, release, device)
    val decision = decide(verified, release, offered, device)
    val state = decision.state.copy(cache = release.cache ?: decision.state.cache)
    installIfNew(device.into, state)
    tidy(device.into, state)
    val learned = if (device.cache == null) null else mergeCache(device, device.cache, state)
    val file = state.current?.let { File(device.into, it.file.sha256 + ADAPTER_END) }
    Pulled(decision.outcome, release, decision.comparison, file, learned, signed.keyId)
}

private fun installIfNew(place: File, state: Installed) {
    if (state != readInstalled(place)) install(place, state)
}

private fun stateOf(device: Device): Installed {
    val state = readInstalled(device.into) ?: return Installed(device.channel)
    device.channel.check(state.channel, "the content of ${device.into}")
    if (state.key != null && device.publicKey == null) {
        throw SyncException(
            "unsigned",
            "releases in ${device.into} were checked with key ${state.key} so far",
            "give that public key",
        )
    }
    // What nobody signed does not count against what is signed.
    return if (state.key == null && device.publicKey != null) state.copy(seen = null, refused = 0) else state
}

private fun latest(store: Store, device: Device): ByteArray = try {
    store.read(latestName(device.channel), MOST_RELEASE_BYTES.toLong())
} catch (error: SyncException) {
    if (error.fault != "missing") throw error
    throw SyncException(
        "missing",
        "the store has no release for the pair of models of ${device.models.name}",
        "check the store's address and the bundle, or ask its publisher",
    )
}

/** Put all files of a release into the directory, each verified; return the adapter. */
private fun filesOf(store: Store, release: Release, device: Device): Adapter? {
    var adapter: Adapter? = null
    if (release.adapter != null) {
        val data = fileOf(store, release, release.adapter, ADAPTER_END, device.into)
        adapter = decodeAdapter(data)
        fit(adapter, device.models, Role.DRAFTER)
        keepOnce(device.into, data, ADAPTER_END)
    }
    if (release.cache != null) {
        val data = fileOf(store, release, release.cache, CACHE_END, device.into)
        checkAgainst(decodeCache(data), device.vocabMap)
        keepOnce(device.into, data, CACHE_END)
    }
    return adapter
}

/** Put a file into the directory if it is absent or damaged. */
private fun keepOnce(place: File, data: ByteArray, end: String): StoredFile {
    val file = StoredFile.of(data)
    return if (kept(place, file, end) != null) file else keep(place, data, end)
}

private fun fileOf(store: Store, release: Release, file: StoredFile, end: String, place: File): ByteArray {
    kept(place, file, end)?.let { return it }
    val name = "${filesFolder(release.channel)}/${file.sha256}$end"
    if (!heapHolds(file.size)) {
        val message = "${shortName(name)} has ${file.size} bytes, more than the memory of this app holds"
        throw SyncException("too_large", message, "ask its publisher for a smaller one")
    }
    val data = store.read(name, file.size)
    file.check(data, shortName(name))
    return data
}

private fun decide(state: Installed, release: Release, offered: Adapter?, device: Device): Decision {
    if (offered == null || release.adapter == null) {
        return Decision(withOwn(state, device).state, PullOutcome.NO_ADAPTER)
    }
    val new = Used(release.number, release.adapter)
    if (state.current == new && device.own == null) return Decision(state, PullOutcome.NEWEST)
    if (state.refused >= release.number && !device.again) {
        return Decision(withOwn(state, device).state, PullOutcome.REFUSED_BEFORE)
    }
    val used = withOwn(state, device)
    if (used.adapter != null && used.adapter.digest == offered.digest) {
        return Decision(used.state.switched(new), PullOutcome.NEWEST)
    }
    val trial = device.trial ?: return Decision(used.state.switched(new), PullOutcome.SWITCHED)
    val comparison = trial.compare(used.adapter, offered)
    if (comparison.isBetter) {
        return Decision(used.state.switched(new).copy(refused = 0), PullOutcome.SWITCHED, comparison)
    }
    // With too few generations the next pull tries the release again.
    val refused = if (comparison.isEnough) release.number else used.state.refused
    return Decision(used.state.copy(refused = refused), PullOutcome.KEPT, comparison)
}

/** The state, with the device's own adapter in use if it has one; and the adapter in use. */
private fun withOwn(state: Installed, device: Device): InUse {
    if (device.own != null) {
        fit(device.own, device.models, Role.DRAFTER)
        val file = keepOnce(device.into, encodeAdapter(device.own), ADAPTER_END)
        return InUse(state.switched(Used(0, file)), device.own)
    }
    val current = state.current ?: return InUse(state, null)
    // An adapter that is absent or damaged cannot be in use.
    val data = kept(device.into, current.file, ADAPTER_END) ?: return InUse(state.copy(current = null), null)
    return InUse(state, decodeAdapter(data))
}

/** Merge the newest release's n-grams into the device's cache; the number of new ones. Repeating it adds nothing. */
private fun mergeCache(device: Device, place: File, state: Installed): Int {
    val data = state.cache?.let { kept(device.into, it, CACHE_END) } ?: return 0
    val theirs = decodeCache(data)
    if (!place.exists() || place.length() == 0L) {
        writeTable(place, theirs)
        return theirs.size
    }
    val own = readTable(place, device.vocabMap)
    val both = bounded(merge(own, theirs))
    if (!encodeCache(both).contentEquals(encodeCache(own))) writeTable(place, both)
    val known = HashSet<Int>(2 * own.size)
    for (i in 0 until own.size) known.add(own.targets[i])
    return (0 until both.size).count { both.targets[it] !in known }
}

/** A cache cut to the capacity of a session; the least used n-grams are left out. */
internal fun bounded(table: CacheTable, most: Int = CAPACITY): CacheTable {
    val order = evictionOrder("lfu", table.hits, table.ticks)
    val kept = order.copyOfRange(maxOf(0, table.size - most), order.size)
    kept.sort()
    return table.keep(kept)
}
