// Names in a store, and the channel of a bundle (spec/15-sync.md, Layout).

/// Name of the record of a device, beside its files.
let pushRecordName = "push"
/// Endings of file names, after the SHA-256.
let adapterEnd = ".safetensors"
let cacheEnd = ".odc"

private let latest = "latest"

/// The channel of a bundle's pair of models.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `no_fingerprint`.
func channelOf(_ place: AdapterPlace) throws -> Channel {
    guard let base = place.drafter.fingerprint, let target = place.target.fingerprint else {
        let role = place.drafter.fingerprint == nil ? "drafter" : "target"
        throw syncError(
            "no_fingerprint",
            "\(place.name) does not name the weights of its \(role), so nothing can be checked to fit it",
            "run `omnidraft export` again from the checkpoints")
    }
    return Channel(
        base: base, target: target, draftTokenizer: place.draftFingerprint, targetTokenizer: place.targetFingerprint)
}

/// The name of the newest release.
func latestName(_ channel: Channel) -> String { "channels/\(channel.id)/\(latest)" }

/// The folder of the files of releases, named by their SHA-256.
func filesFolder(_ channel: Channel) -> String { "channels/\(channel.id)/files" }

/// The folder of one device: files named by their SHA-256, and the record.
func deviceFolder(_ channel: Channel, _ device: String) -> String { "channels/\(channel.id)/devices/\(device)" }
