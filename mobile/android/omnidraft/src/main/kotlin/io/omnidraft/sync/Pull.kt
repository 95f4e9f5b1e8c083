package io.omnidraft.sync

import io.omnidraft.Defaults
import io.omnidraft.PullOutcome
import io.omnidraft.learning.AdapterComparison
import io.omnidraft.models.Adapter
import io.omnidraft.models.AdapterPlace
import io.omnidraft.models.Role
import io.omnidraft.models.decodeAdapter
import io.omnidraft.models.encodeAdapter
import io.omnidraft.models.fit
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

/* Verify a release on a device, compare its adapter, and switch or stay (spec/15-sync.md). */

/** Compares the adapter in use (null for none) with the offered one. */
internal fun interface Trial {
    fun compare(current: Adapter?, offered: Adapter): AdapterComparison
}

internal class Device(
    val models: AdapterPlace, // both models of the device's bundle
    val vocabMap: VocabMap,
    val into: File, // the directory of `Installed.kt`
    val trial: Trial? = null, // compares adapters on recent traces; null takes the release without a comparison
    val own: Adapter? = null, // an adapter that the device learned and has in use; null for the adapter in `into`
    val cache: File? = null, // the device's own n-grams, into which those of the release are merged; null for none
) {
    val channel: Channel get() = channelOfBundle(models)
}

internal class Pulled(
    val outcome: PullOutcome,
    val release: SignedRecord,
    val comparison: AdapterComparison?, // of the offered adapter with the one in use; null where there was no trial
    val adapter: File?, // the file in use now; null for the drafter without an adapter
    val learned: Int?, // n-grams that were new to the device's own cache; null without a cache
)

/** The state after a release, and what happened to its adapter. */
private class Decision(val state: Installed, val outcome: PullOutcome, val comparison: AdapterComparison? = null)

private class InUse(val state: Installed, val adapter: Adapter?)

/** Take a verified release if it is current and its adapter is better. */
internal fun pull(signed: Signed, device: Device, now: String = utc()): Pulled = claimedDirectory(device.into) {
    val release = signed.record
    val before = readInstalled(device.into) ?: Installed(device.channel)
    device.channel.check(before.channel, "the content of ${device.into}")
    device.channel.check(release.channel, "the release")
    before.seen?.check(release)
    checkCurrent(release, device.channel, now)
    val offered = signed.adapter?.let { decodeAdapter(it) }?.also { fit(it, device.models, Role.DRAFTER) }
    val theirs = signed.cache?.let { decodeCache(it) }?.also { checkAgainst(it, device.vocabMap) }
    val decision = decide(before.copy(seen = Seen(release.number, release.digest)), signed, offered, device)
    val state = decision.state
    if (state != readInstalled(device.into)) install(device.into, state)
    tidy(device.into, state)
    val learned = device.cache?.let { mergeCache(device, it, theirs) }
    val file = state.current?.let { File(device.into, it.file.sha256 + ADAPTER_END) }
    Pulled(decision.outcome, release, decision.comparison, file, learned)
}

private fun decide(before: Installed, signed: Signed, offered: Adapter?, device: Device): Decision {
    val used = withOwn(before, device)
    val state = used.state
    val release = signed.record
    if (offered == null || signed.adapter == null || release.adapter == null) {
        return Decision(state, PullOutcome.NO_ADAPTER)
    }
    val new = Used(release.number, release.adapter)
    if (state.current == new) return Decision(state, PullOutcome.NEWEST)
    if (state.refused >= release.number) return Decision(state, PullOutcome.REFUSED_BEFORE)
    val isSame = used.adapter != null && used.adapter.digest == offered.digest
    val comparison = if (isSame) null else device.trial?.compare(used.adapter, offered)
    if (comparison != null && !comparison.isBetter) {
        // With too few generations the next pull tries the release again.
        val refused = if (comparison.isEnough) release.number else state.refused
        return Decision(state.copy(refused = refused), PullOutcome.KEPT, comparison)
    }
    keep(device.into, signed.adapter)
    return Decision(state.switched(new), if (isSame) PullOutcome.NEWEST else PullOutcome.SWITCHED, comparison)
}

/** The state, with the device's own adapter in use if it has one; and the adapter in use. */
private fun withOwn(state: Installed, device: Device): InUse {
    if (device.own != null) {
        fit(device.own, device.models, Role.DRAFTER)
        val file = keep(device.into, encodeAdapter(device.own))
        return InUse(state.switched(Used(0, file)), device.own)
    }
    val current = state.current ?: return InUse(state, null)
    // An adapter that is absent or damaged cannot be in use.
    val data = kept(device.into, current.file) ?: return InUse(state.copy(current = null), null)
    return InUse(state, decodeAdapter(data))
}

/** Merge a release's n-grams into the device's cache; the number of new ones. Repeating it adds nothing. */
private fun mergeCache(device: Device, place: File, theirs: CacheTable?): Int {
    if (theirs == null) return 0
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
internal fun bounded(table: CacheTable, most: Int = Defaults.CACHE_CAPACITY): CacheTable {
    val order = evictionOrder(table.hits, table.ticks)
    val kept = order.copyOfRange(maxOf(0, table.size - most), order.size)
    kept.sort()
    return table.keep(kept)
}
