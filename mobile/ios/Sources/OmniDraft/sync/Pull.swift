// Fetch the newest release on a device, verify it, compare its adapter, and switch or stay (spec/15-sync.md).
//
// All files are read and checked beside those in use; replacing one pointer file is the switch. A kill, a broken
// connection or a full disk leaves the files in use as they were. Nothing is sent.

/// The device that pulls.
struct Device {
    /// Both models of the device's bundle.
    let models: AdapterPlace
    /// Of the bundle.
    let vocabMap: VocabMap
    /// The directory of `Installed.swift`.
    let into: String
    /// Of the signer, as an app gives it; nil leaves signatures unchecked, which is allowed where none was checked
    /// before.
    var publicKey: [UInt8]?
    /// Compares adapters on recent traces; nil takes the release without a comparison.
    var trial: Trial?
    /// An adapter that the device learned and has in use; nil for the adapter in ``into``.
    var own: Adapter?
    /// The device's own n-grams, into which those of the release are merged; nil for none.
    var cache: String?
    /// Try a release again that was refused before.
    var again = false

    /// The channel of the bundle.
    ///
    /// - Throws: ``OmniDraftError/sync(_:)`` `no_fingerprint`.
    func channel() throws -> Channel { try channelOf(models) }
}

/// The result of a pull.
struct Pulled {
    /// Of the release's adapter.
    let outcome: PullOutcome
    /// The newest release.
    let release: Release
    /// Of the offered adapter with the one in use; nil where there was no trial.
    let comparison: AdapterComparison?
    /// The file in use now; nil for the drafter without an adapter.
    let adapter: String?
    /// N-grams that were new to the device's own cache; nil without a cache.
    let learned: Int?
    /// Id of the key that the signature was checked with; nil where it was not checked.
    let key: String?
}

/// The state after a release, and what happened to its adapter.
private struct PullDecision {
    var state: Installed
    let outcome: PullOutcome
    var comparison: AdapterComparison?
}

/// Take the newest release if it is valid and its adapter is better. Waits for the store: call it from a ``Worker``.
///
/// - Parameters:
///   - store: to read from.
///   - device: that pulls.
///   - now: ISO 8601 in UTC.
/// - Throws: ``OmniDraftError/sync(_:)``: the release is refused, the store cannot be reached, or the directory cannot
///   be written; ``OmniDraftError/adapter(_:)`` or ``OmniDraftError/cacheFile(_:)``: a file of the release or of the
///   device is refused; ``OmniDraftError/signature(_:)`` `unverifiable`; `CancellationError`.
func pull(_ store: Store, _ device: Device, now: String = utc()) throws -> Pulled {
    let key = try device.publicKey.map(readPublicKey)
    return try claimedDirectory(device.into) {
        let channel = try device.channel()
        var verified = try stateOf(device, channel)
        let signed = try decodeRelease(newest(store, device, channel), publicKey: key)
        let release = signed.release
        try checkRelease(release, channel: channel, seen: verified.seen, now: now)
        // Kept at once: who withholds a file of this release cannot offer an older release afterwards.
        verified.seen = Seen(release)
        verified.key = signed.keyId ?? verified.key
        try installIfNew(device.into, verified)
        let offered = try filesOf(store, release, device)
        var decision = try decide(verified, release, offered, device)
        decision.state.cache = release.cache ?? decision.state.cache
        try installIfNew(device.into, decision.state)
        tidy(device.into, decision.state)
        let learned = try device.cache.map { try mergeCache(device, $0, decision.state) }
        let file = decision.state.current.map { joined(device.into, $0.file.sha256 + adapterEnd) }
        return Pulled(
            outcome: decision.outcome, release: release, comparison: decision.comparison, adapter: file,
            learned: learned, key: signed.keyId)
    }
}

private func installIfNew(_ place: String, _ state: Installed) throws {
    if try readInstalled(place) != state { try install(place, state) }
}

private func stateOf(_ device: Device, _ channel: Channel) throws -> Installed {
    guard var state = try readInstalled(device.into) else { return Installed(channel: channel) }
    try channel.check(state.channel, "the content of \(device.into)")
    if let key = state.key, device.publicKey == nil {
        let message = "releases in \(device.into) were checked with key \(key) so far"
        throw syncError("unsigned", message, "give that public key")
    }
    if state.key == nil && device.publicKey != nil {  // what nobody signed does not count against what is signed
        (state.seen, state.refused) = (nil, 0)
    }
    return state
}

private func newest(_ store: Store, _ device: Device, _ channel: Channel) throws -> [UInt8] {
    do {
        return try store.read(latestName(channel), most: mostReleaseBytes)
    } catch OmniDraftError.sync(let refusal) where refusal.fault == "missing" {
        throw syncError(
            "missing", "the store has no release for the pair of models of \(device.models.name)",
            "check the store's address and the bundle, or ask its publisher")
    }
}

/// Put all files of a release into the directory, each verified; return the adapter.
private func filesOf(_ store: Store, _ release: Release, _ device: Device) throws -> Adapter? {
    var adapter: Adapter?
    if let file = release.adapter {
        let data = try dataOf(store, release, file, adapterEnd, device.into)
        let offered = try decodeAdapter(Bytes(data))
        _ = try fit(offered, device.models, .drafter)
        try keepOnce(device.into, data, adapterEnd)
        adapter = offered
    }
    if let file = release.cache {
        let data = try dataOf(store, release, file, cacheEnd, device.into)
        try checkAgainst(decodeCache(Bytes(data)), device.vocabMap)
        try keepOnce(device.into, data, cacheEnd)
    }
    return adapter
}

/// Put a file into the directory if it is absent or damaged.
@discardableResult
private func keepOnce(_ place: String, _ data: [UInt8], _ end: String) throws -> StoredFile {
    let file = StoredFile(data)
    return kept(place, file, end) == nil ? try keep(place, data, end) : file
}

private func dataOf(
    _ store: Store, _ release: Release, _ file: StoredFile, _ end: String, _ place: String
) throws -> [UInt8] {
    if let data = kept(place, file, end) { return data }
    let name = "\(filesFolder(release.channel))/\(file.sha256)\(end)"
    let data = try store.read(name, most: file.size)
    try file.check(data, shortName(name))
    return data
}

private func decide(
    _ state: Installed, _ release: Release, _ offered: Adapter?, _ device: Device
) throws -> PullDecision {
    guard let offered, let file = release.adapter else {
        return PullDecision(state: try withOwn(state, device).state, outcome: .noAdapter)
    }
    let new = Used(number: release.number, file: file)
    if state.current == new && device.own == nil { return PullDecision(state: state, outcome: .newest) }
    if state.refused >= release.number && !device.again {
        return PullDecision(state: try withOwn(state, device).state, outcome: .refusedBefore)
    }
    var (used, adapter) = try withOwn(state, device)
    if let adapter, isSame(adapter.digest, offered.digest) {
        return PullDecision(state: used.switched(new), outcome: .newest)
    }
    guard let trial = device.trial else { return PullDecision(state: used.switched(new), outcome: .switched) }
    let comparison = try trial(adapter, offered)
    if comparison.isBetter {
        used = used.switched(new)
        used.refused = 0
        return PullDecision(state: used, outcome: .switched, comparison: comparison)
    }
    // With too few generations the next pull tries the release again.
    if comparison.isEnough { used.refused = release.number }
    return PullDecision(state: used, outcome: .kept, comparison: comparison)
}

/// The state, with the device's own adapter in use if it has one; and the adapter in use.
private func withOwn(_ state: Installed, _ device: Device) throws -> (state: Installed, adapter: Adapter?) {
    if let own = device.own {
        _ = try fit(own, device.models, .drafter)
        let file = try keepOnce(device.into, encodeAdapter(own), adapterEnd)
        return (state.switched(Used(number: 0, file: file)), own)
    }
    guard let current = state.current else { return (state, nil) }
    guard let data = kept(device.into, current.file, adapterEnd) else {
        var without = state  // an adapter that is absent or damaged cannot be in use
        without.current = nil
        return (without, nil)
    }
    return (state, try decodeAdapter(Bytes(data)))
}

/// Merge the newest release's n-grams into the device's cache; the number of new ones. Repeating it adds nothing.
private func mergeCache(_ device: Device, _ place: String, _ state: Installed) throws -> Int {
    guard let file = state.cache, let data = kept(device.into, file, cacheEnd) else { return 0 }
    let theirs = try decodeCache(Bytes(data))
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
func bounded(_ table: CacheTable, most: Int = cacheCapacity) -> CacheTable {
    let order = evictionOrder(.lfu, hits: table.hits, ticks: table.ticks)
    return table.keep(order.suffix(max(0, most)).sorted())
}
