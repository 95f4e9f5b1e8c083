import Foundation
import XCTest

@testable import OmniDraft

/// A tiny pair of models without graphs, a release in a file, and the actions of a publisher and of a device.
struct SyncWorld {
    /// Target ids of the toy map that are n-grams.
    static let grams: [Int32] = [5, 6, 7, 9]
    static let seed = [UInt8](0..<32)
    private static let created = "2026-01-02T03:04:05Z"

    /// Holds everything; removed at the end.
    let place: String
    let map: VocabMap
    let models: AdapterPlace
    let publicKey: [UInt8]

    /// Runs `body` in a new place, where signatures can be checked.
    static func run(_ body: (SyncWorld) throws -> Void) throws {
        try withEd25519 { try inDirectory { try body(SyncWorld($0)) } }
    }

    private init(_ place: String) throws {
        self.place = place
        map = try vectorMap("toy")
        let site = Site(inputs: 2, parts: [Site.Part(name: "o", width: 1)])
        let lora = LoraSites(rank: nil, sites: ByName([("layers.0.o", site)]))
        let (base, target) = (String(repeating: "a", count: 64), String(repeating: "b", count: 64))
        models = AdapterPlace(
            name: "tiny", drafter: modelEntry("drafter", vocabSize: 9, fingerprint: base, lora: lora),
            target: modelEntry("target", vocabSize: 13, fingerprint: target),
            draftFingerprint: map.draftFingerprint, targetFingerprint: map.targetFingerprint)
        publicKey = try signed([], seed: Self.seed).publicKey
    }

    /// The file of the newest release.
    var release: String { joined(place, "release") }
    var into: String { joined(place, "device") }
    /// The pointer file of the device.
    var pointer: String { joined(into, pointerName) }

    func channel() throws -> Channel { try channelOf(models) }

    /// An adapter, another one for each number.
    func adapter(_ number: Int) throws -> Adapter {
        let pair = SitePair(
            a: FloatTensor(shape: [2, 1], values: [Float(number), 1]), b: FloatTensor(shape: [1, 1], values: [0.5]))
        return try Adapter(
            base: String(repeating: "a", count: 64), draftTokenizer: map.draftFingerprint,
            targetTokenizer: map.targetFingerprint, tensors: ByName([("layers.0.o", pair)]), created: Self.created)
    }

    /// Some n-grams with their counts.
    func table(_ targets: [Int32], hits: Int32, accepted: Int32 = 0) -> CacheTable {
        let count = targets.count
        return CacheTable(
            draftFingerprint: map.draftFingerprint, targetFingerprint: map.targetFingerprint, tick: 9,
            targets: IntTable(targets), spellings: Ragged(rows: targets.map { map.spellings.row(Int($0)) }),
            ticks: IntTable([Int32](repeating: 0, count: count)),
            hits: IntTable([Int32](repeating: hits, count: count)),
            accepted: IntTable([Int32](repeating: accepted, count: count)))
    }

    /// Publishes an adapter and all n-grams under a number, which also chooses the adapter.
    @discardableResult
    func publish(_ number: Int, withAdapter: Bool = true) throws -> SignedRecord {
        let adapter = withAdapter ? try encodeAdapter(adapter(number)) : nil
        let cache = try encodeCache(table(Self.grams, hits: Int32(number + 1)))
        let record = SignedRecord(
            kind: .release, key: hexOf(publicKey), channel: try channel(), number: number,
            expires: "2099-01-01T00:00:00Z", accepted: number, adapter: adapter.map { StoredFile($0) },
            cache: StoredFile(cache))
        try put(release, try writeSigned(record, [adapter, cache].compactMap { $0 }, seed: Self.seed))
        return record
    }

    /// Pulls the newest release with the publisher's key, after a change of its bytes or of the device.
    func pull(
        _ bytes: ([UInt8]) -> [UInt8] = { $0 }, _ change: (inout Device) -> Void = { _ in }
    ) throws -> Pulled {
        var device = Device(models: models, vocabMap: map, into: into)
        change(&device)
        let data = bytes(try readFile(release, most: 1 << 20))
        return try pulled(readSigned(data, .release, publicKey: publicKey), device)
    }

    /// The fault of a pull of changed bytes; nil where there is none.
    func fault(_ bytes: ([UInt8]) -> [UInt8]) throws -> String? { try faultOf { _ = try pull(bytes) } }

    /// The digest of the adapter in use; nil without one.
    func inUse() throws -> String? { try DeviceReleases(into).adapter()?.digest }
}

/// Bytes with one bit changed.
func flipped(_ data: [UInt8], _ at: Int) -> [UInt8] {
    var changed = data
    changed[at] ^= 1
    return changed
}

/// The function `pull` of the runtime, whose name a method hides.
private func pulled(_ signed: Signed, _ device: Device) throws -> Pulled { try pull(signed, device) }
