// Verify a release on a device, compare its adapter, and switch or stay (spec/15-sync.md).

struct Device {
    /// Both models of the device's bundle.
    let models: AdapterPlace
    let vocabMap: VocabMap
    /// The directory of `Installed.swift`.
    let into: String
    /// Compares adapters on recent traces; nil takes the release without a comparison.
    var trial: Trial?
    /// An adapter that the device learned and has in use; nil for the adapter in ``into``.
    var own: Adapter?
    /// The device's own n-grams, into which those of the release are merged; nil for none.
    var cache: String?

    /// The channel of the bundle.
    ///
    /// - Throws: ``OmniDraftError/sync(_:)`` `no_fingerprint`.
    func channel() throws -> Channel { try channelOf(models) }
}

struct Pulled {
    let outcome: PullOutcome
    let release: SignedRecord
    /// Of the offered adapter with the one in use; nil where there was no trial.
    let comparison: AdapterComparison?
    /// The file in use now; nil for the drafter without an adapter.
    let adapter: String?
    /// N-grams that were new to the device's own cache; nil without a cache.
    let learned: Int?
}

/// The state after a release, and what happened to its adapter.
private struct PullDecision {
    var state: Installed
    let outcome: PullOutcome
    var comparison: AdapterComparison?
}

/// Take a verified release if it is current and its adapter is better.
///
/// - Parameter now: ISO 8601 in UTC.
func pull(_ signed: Signed, _ device: Device, now: String = utc()) throws -> Pulled {
    try claimedDirectory(device.into) {
        let (channel, release) = (try device.channel(), signed.record)
        var state = try readInstalled(device.into) ?? Installed(channel: channel)
        try channel.check(state.channel, "the content of \(device.into)")
        try channel.check(release.channel, "the release")
        try state.seen?.check(release)
        try checkCurrent(release, channel, now: now)
        let offered = try signed.adapter.map { try decodeAdapter(Bytes($0)) }
        if let offered { _ = try fit(offered, in: device.models, as: .drafter) }
        let theirs = try signed.cache.map { try decodeCache(Bytes($0)) }
        if let theirs { try checkAgainst(theirs, device.vocabMap) }
        state.seen = Seen(number: release.number, sha256: release.digest)
        let decision = try decide(state, signed, offered, device)
        if try readInstalled(device.into) != decision.state { try install(device.into, decision.state) }
        tidy(device.into, decision.state)
        let learned = try device.cache.map { try mergeCache(device, $0, theirs) }
        let file = decision.state.current.map { joined(device.into, $0.file.sha256 + adapterEnd) }
        return Pulled(
            outcome: decision.outcome, release: release, comparison: decision.comparison, adapter: file,
            learned: learned)
    }
}

private func decide(
    _ before: Installed, _ signed: Signed, _ offered: Adapter?, _ device: Device
) throws -> PullDecision {
    let (own, used) = try withOwn(before, device)
    var state = own
    guard let offered, let data = signed.adapter, let file = signed.record.adapter else {
        return PullDecision(state: state, outcome: .noAdapter)
    }
    let new = Used(number: signed.record.number, file: file)
    if state.current == new { return PullDecision(state: state, outcome: .newest) }
    if state.refused >= new.number { return PullDecision(state: state, outcome: .refusedBefore) }
    let isUsed = used.map { isSame($0.digest, offered.digest) } ?? false
    let comparison = try isUsed ? nil : device.trial?(used, offered)
    if let comparison, !comparison.isBetter {
        // With too few generations the next pull tries the release again.
        if comparison.isEnough { state.refused = new.number }
        return PullDecision(state: state, outcome: .kept, comparison: comparison)
    }
    try keep(device.into, data)
    return PullDecision(state: state.switched(new), outcome: isUsed ? .newest : .switched, comparison: comparison)
}

/// The state, with the device's own adapter in use if it has one; and the adapter in use.
private func withOwn(_ state: Installed, _ device: Device) throws -> (state: Installed, adapter: Adapter?) {
    if let own = device.own {
        _ = try fit(own, in: device.models, as: .drafter)
        let file = try keep(device.into, encodeAdapter(own))
        return (state.switched(Used(number: 0, file: file)), own)
    }
    guard let current = state.current else { return (state, nil) }
    guard let data = kept(device.into, current.file) else {
        var without = state  // an adapter that is absent or damaged cannot be in use
        without.current = nil
        return (without, nil)
    }
    return (state, try decodeAdapter(Bytes(data)))
}

/// Merge a release's n-grams into the device's cache; the number of new ones. Repeating it adds nothing.
private func mergeCache(_ device: Device, _ place: String, _ theirs: CacheTable?) throws -> Int {
    guard let theirs else { return 0 }
    if !exists(place) || (try? OpenFile(place).size) == 0 {
        try writeCacheTable(place, theirs)
        return theirs.count
    }
    let own = try readCacheTable(place, device.vocabMap)
    let both = bounded(try merge(own, theirs))
    if try encodeCache(both) != encodeCache(own) { try writeCacheTable(place, both) }
    let known = Set(own.targets.array())
    return both.targets.array().count { !known.contains($0) }
}

/// A cache cut to the capacity of a session; the least used n-grams are left out.
func bounded(_ table: CacheTable, most: Int = Defaults.cacheCapacity) -> CacheTable {
    let order = evictionOrder(hits: table.hits, ticks: table.ticks)
    return table.keep(order.suffix(max(0, most)).sorted())
}
