import Foundation
import XCTest

@testable import OmniDraft

/// Runs `sync/record` and `sync/pull`: what a device signs and reads, with the faults.
final class SyncVectorsTests: VectorTestCase {
    func testRecord() throws {
        try run("sync/record") { vector in
            let channel = channelOf(vector.input["channel"]!.object)
            try withEd25519 {
                if vector.input["seed"] == nil {
                    try checkRead(vector, channel)
                } else {
                    try checkWritten(vector, channel)
                }
            }
        }
    }

    func testPull() throws {
        try run("sync/pull") { vector in try withEd25519 { try inDirectory { try checkPull(vector, $0) } } }
    }

    private func kind(_ given: JsonObject) throws -> SignedKind {
        try XCTUnwrap(SignedKind(rawValue: given["kind"]!.string))
    }

    private func checkRead(_ vector: Vector, _ channel: Channel) throws {
        let given = vector.input
        let data = given["file"]!.hex
        let seen = given["seen"]?.optional.map {
            Seen(number: $0.object["number"]!.int, sha256: $0.object["sha256"]!.string)
        }
        let fault = try faultOf {
            let signed = try readSigned(data, try kind(given), publicKey: given["public_key"]?.optional?.hex)
            try channel.check(signed.record.channel, "it")
            try seen?.check(signed.record)
            try checkCurrent(signed.record, channel, now: given["now"]!.string)
            try same("the size", signed.record.size, data.count)
        }
        try same("the fault", fault, vector.expected["fault"]?.optional?.string)
    }

    /// The signature of Ed25519 is deterministic in OpenSSL; CryptoKit's has random numbers, so that all but it is
    /// compared there.
    private func checkWritten(_ vector: Vector, _ channel: Channel) throws {
        let given = vector.input
        let seed = given["seed"]!.hex
        let (adapter, cache) = (given["adapter"]?.optional?.hex, given["cache"]?.optional?.hex)
        let traces = given["traces"]!.array.map(\.hex)
        let record = SignedRecord(
            kind: try kind(given), key: hexOf(try signed([], seed: seed).publicKey), channel: channel,
            number: given["number"]!.int, expires: given["expires"]!.string, accepted: given["accepted"]!.int,
            adapter: adapter.map { StoredFile($0) }, cache: cache.map { StoredFile($0) },
            traces: traces.map { StoredFile($0) })
        let data = try writeSigned(record, [adapter, cache].compactMap { $0 } + traces, seed: seed)
        let due = vector.expected["file"]!.hex
        try same("the channel", channel.id, vector.expected["channel_id"]!.string)
        if !canCheckSignatures { try same("the file", data, due) }
        try same("the lines", data.dropFirst(signatureBytes), due.dropFirst(signatureBytes))
        _ = try readSigned(data, record.kind, publicKey: nil)
    }

    private func checkPull(_ vector: Vector, _ place: String) throws {
        let given = vector.input
        let into = joined(place, "device")
        let pointer = joined(into, pointerName)
        if let installed = given["installed"]?.optional { try put(pointer, Array(installed.string.utf8)) }
        let map = try vectorMap(given["map"]!.string)
        let models = AdapterPlace(
            name: "vectors", drafter: adapterEntry("drafter", given), target: adapterEntry("target", given),
            draftFingerprint: map.draftFingerprint, targetFingerprint: map.targetFingerprint)
        let device = Device(models: models, vocabMap: map, into: into)
        let fault = try faultOf {
            let signed = try readSigned(given["file"]!.hex, .release, publicKey: given["public_key"]!.hex)
            _ = try pull(signed, device, now: given["now"]!.string)
        }
        try same("the fault", fault, vector.expected["fault"]?.optional?.string)
        if fault == nil {
            let installed = try XCTUnwrap(readInstalled(into))
            try same("the files", Set(namesIn(into)).subtracting(installed.files), [pointerName])
        }
        let found = exists(pointer) ? String(decoding: try readFile(pointer, most: 1 << 12), as: UTF8.self) : nil
        try same("the pointer", found, vector.expected["pointer"]?.optional?.string)
    }

    private func channelOf(_ given: JsonObject) -> Channel {
        Channel(
            base: given["base"]!.string, target: given["target"]!.string,
            draftTokenizer: given["draft_tokenizer"]!.string, targetTokenizer: given["target_tokenizer"]!.string)
    }
}
