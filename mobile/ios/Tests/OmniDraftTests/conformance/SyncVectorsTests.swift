import Foundation
import XCTest

@testable import OmniDraft

/// Runs `sync/release`, `sync/push` and `sync/pull`: what a device reads of a store, with the faults.
final class SyncVectorsTests: VectorTestCase {
    func testRelease() throws {
        try run("sync/release") { vector in
            let channel = channelOf(vector.input["channel"]!.object)
            if vector.input["seed"] == nil {
                try checkRead(vector, channel)
            } else {
                try checkWritten(vector, channel)
            }
        }
    }

    func testPush() throws {
        try run("sync/push") { vector in
            let data = vector.input["file"]!.hex
            if let fault = vector.expected["fault"]?.optional {
                try same("the fault", try faultOf { _ = try decodePush(data) }, fault.string)
            } else {
                try same("the push", encodePush(try decodePush(data)), data)
            }
        }
    }

    func testPull() throws {
        try run("sync/pull") { vector in try withEd25519 { try inDirectory { try checkPull(vector, $0) } } }
    }

    private func checkRead(_ vector: Vector, _ channel: Channel) throws {
        let given = vector.input
        let (data, key) = (given["file"]!.hex, given["public_key"]?.optional?.hex)
        let seen = given["seen"]?.optional.map {
            Seen(number: $0.object["number"]!.int, sha256: $0.object["sha256"]!.string)
        }
        var read: SignedRelease?
        let fault = try faultOf {
            let signed = try withEd25519 { try decodeRelease(data, publicKey: key) }
            try checkRelease(signed.release, channel: channel, seen: seen, now: given["now"]!.string)
            read = signed
        }
        try same("the fault", fault, vector.expected["fault"]?.optional?.string)
        guard let read else { return }
        let signature = try decodeSignature(Array(data.prefix(signatureBytes)))
        try same("the file", encodeRelease(read.release, signature), data)
        try same("the key", read.keyId, key.map(keyId))
    }

    /// The signature of Ed25519 is deterministic in OpenSSL; CryptoKit's has random numbers, so that the lines alone
    /// are compared there.
    private func checkWritten(_ vector: Vector, _ channel: Channel) throws {
        let given = vector.input
        let release = Release(
            number: given["number"]!.int, channel: channel, created: given["created"]!.string,
            expires: given["expires"]!.string, adapter: file(given["adapter"]), cache: file(given["cache"]),
            accepted: given["accepted"]!.int, devices: given["devices"]!.int)
        let (publicKey, value) = try signed(release.text, seed: given["seed"]!.hex)
        let data = encodeRelease(release, Signature(keyId: keyId(publicKey), value: value))
        let due = vector.expected["file"]!.hex
        try same("the channel", channel.id, vector.expected["channel_id"]!.string)
        if !canCheckSignatures { try same("the file", data, due) }
        try same("the lines", data.dropFirst(signatureBytes), due.dropFirst(signatureBytes))
        _ = try withEd25519 { try decodeRelease(data, publicKey: publicKey) }
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
        let device = Device(
            models: models, vocabMap: map, into: into, publicKey: given["public_key"]?.optional?.hex)
        let store = Store(ReleaseFolder(URL(fileURLWithPath: try filled(place, given["store"]))))
        let fault = try faultOf { _ = try pull(store, device, now: given["now"]!.string) }
        try same("the fault", fault, vector.expected["fault"]?.optional?.string)
        if fault == nil {
            let installed = try XCTUnwrap(readInstalled(into))
            try same("the files", Set(namesIn(into)), installed.files.union([pointerName]))
        }
        let found = exists(pointer) ? String(decoding: try readFile(pointer, most: 1 << 12), as: UTF8.self) : nil
        try same("the pointer", found, vector.expected["pointer"]?.optional?.string)
    }

    /// A folder with the files of a store; one that cannot be read where there is no store.
    private func filled(_ place: String, _ files: JsonValue?) throws -> String {
        guard let files = files?.optional else {
            try put(joined(place, "file"), [])
            return joined(place, "file/store")
        }
        let store = joined(place, "store")
        try makeDirectories(store)
        for (path, data) in files.object.members { try put(joined(store, path), data.hex) }
        return store
    }

    private func channelOf(_ given: JsonObject) -> Channel {
        Channel(
            base: given["base"]!.string, target: given["target"]!.string,
            draftTokenizer: given["draft_tokenizer"]!.string, targetTokenizer: given["target_tokenizer"]!.string)
    }

    private func file(_ given: JsonValue?) -> StoredFile? {
        given?.optional.map { StoredFile(sha256: $0.object["sha256"]!.string, size: $0.object["bytes"]!.int) }
    }
}
