import Foundation
import XCTest

@testable import OmniDraft

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A store that others write to, and a device's own directory that something changed.
final class HostileStoreTests: XCTestCase {
    func testWhatWasChangedIsRefusedByName() throws {
        try SyncWorld.run { world in
            func fault(_ change: (SyncWorld) throws -> Void, key: [UInt8]? = world.publicKey) throws -> String? {
                removeTree(world.folder)
                removeTree(world.into)
                try world.publish(1)
                try change(world)
                let fault = try world.fault { $0.publicKey = key }
                XCTAssertNil(try readInstalled(world.into)?.current)
                return fault
            }
            let latest = try world.latest()
            try world.publish(1)
            let files = joined(world.folder, filesFolder(try world.channel()))
            func adapter() -> String { joined(files, namesIn(files).first { $0.hasSuffix(adapterEnd) } ?? "") }
            let bytes = try readFile(latest, most: 4096).count
            XCTAssertEqual(try fault { _ in try flip(latest, bytes - 3) }, "wrong_signature")
            XCTAssertEqual(try fault { _ in try flip(latest, 3) }, "malformed")
            XCTAssertEqual(try fault({ _ in }, key: [UInt8](repeating: 7, count: 32)), "other_key")
            XCTAssertEqual(try fault { _ in unlink(latest) }, "missing")
            XCTAssertEqual(try fault { _ in try flip(adapter(), 900) }, "checksum")
            XCTAssertEqual(try fault { _ in removeTree(files) }, "missing")
            XCTAssertEqual(
                try fault { _ in try put(latest, readFile(latest, most: 4096) + [UInt8](repeating: 0, count: 2048)) },
                "too_large")
            XCTAssertEqual(try fault { try $0.publish(2, expires: "2026-01-03T00:00:00Z") }, "expired")
        }
    }

    func testPipesAndLinksStopNobody() throws {
        try SyncWorld.run { world in
            try world.publish(1)
            _ = try world.pull()
            let latest = try world.latest()
            unlink(latest)
            XCTAssertEqual(mkfifo(latest, 0o600), 0)
            XCTAssertEqual(try world.fault(), "missing")
            unlink(latest)
            XCTAssertEqual(symlink(latest, latest), 0)
            XCTAssertEqual(try world.fault(), "missing")
            unlink(latest)
            try makeDirectories(latest)
            XCTAssertEqual(try world.fault(), "missing")
            unlink(world.pointer)
            XCTAssertEqual(mkfifo(world.pointer, 0o600), 0)
            XCTAssertEqual(try faultOf { _ = try readInstalled(world.into) }, "unreadable")
            removeTree(world.into)
            try put(world.into, [])
            XCTAssertEqual(try world.fault(), "unwritable")
        }
    }

    func testAReleaseCountsAsSoonAsItIsVerified() throws {
        try SyncWorld.run { world in
            try world.publish(2)
            let two = try readFile(world.latest(), most: 4096)
            let three = try world.publish(3)
            let name = "\(filesFolder(try world.channel()))/\(try XCTUnwrap(three.adapter).sha256)\(adapterEnd)"
            unlink(joined(world.folder, name))
            XCTAssertEqual(try world.fault(), "missing")
            try put(world.latest(), two)
            XCTAssertEqual(try world.fault(), "older")
            try world.publish(3, of: 4)
            XCTAssertEqual(try world.fault(), "conflict")
        }
    }

    func testAReleaseThatNobodyCheckedDoesNotCountAgainstSignedOnes() throws {
        try SyncWorld.run { world in
            let release = try world.publish(1)
            let record = try readFile(world.latest(), most: 4096)
            let forged = Release(
                number: largestNumber, channel: release.channel, created: release.created, expires: release.expires,
                adapter: release.adapter, cache: release.cache)
            try put(world.latest(), encodeRelease(forged, decodeSignature(Array(record.prefix(signatureBytes)))))
            let unsigned = try world.pull { $0.publicKey = nil }
            XCTAssertEqual(unsigned.release.number, largestNumber)
            XCTAssertNil(unsigned.key)
            try put(world.latest(), record)
            XCTAssertEqual(try world.fault { $0.publicKey = nil }, "older")
            XCTAssertEqual(try world.pull().release.number, 1)
            XCTAssertEqual(try world.fault { $0.publicKey = nil }, "unsigned")
        }
    }

    func testWhatIsInstalledIsReadTotally() throws {
        try SyncWorld.run { world in
            XCTAssertEqual(try faultOf { _ = try adapterInUse(world.into) }, "absent")
            XCTAssertEqual(try faultOf { try rollBack(joined(world.place, "new")) }, "absent")
            try world.publish(1)
            _ = try world.pull()
            let good = try readFile(world.pointer, most: 4096)
            let state = try XCTUnwrap(readInstalled(world.into))
            XCTAssertEqual(state.text, good)
            let text = String(decoding: good, as: UTF8.self)
            for data in [
                [], Array(good.dropLast()), good + [10],
                Array(text.replacingOccurrences(of: "seen 1", with: "seen 01").utf8),
                Array(text.replacingOccurrences(of: "seen 1", with: "seen ").utf8),
                Array(text.replacingOccurrences(of: "key ", with: "key 0").utf8),
                [UInt8](repeating: 0xff, count: 3000), good + [UInt8](repeating: 10, count: 3000),
            ] {
                try put(world.pointer, data)
                XCTAssertEqual(try faultOf { _ = try readInstalled(world.into) }, "malformed")
                XCTAssertEqual(try world.fault(), "malformed")
            }
            try install(world.into, state)
            let other = try world.withTarget("8")
            try other.publish(1)
            XCTAssertEqual(try other.fault(), "foreign")
            let file = joined(world.into, try XCTUnwrap(state.current).file.sha256 + adapterEnd)
            try flip(file, 900)
            XCTAssertEqual(try faultOf { _ = try adapterInUse(world.into) }, "checksum")
            XCTAssertEqual(try faultOf { _ = try DeviceReleases(world.into).adapter() }, "checksum")
            unlink(file)  // without the file the drafter runs without an adapter
            XCTAssertEqual(try world.pull().outcome, .newest)
            XCTAssertEqual(try world.inUse(), try world.adapter(1).digest)
        }
    }

    func testABundleWithoutFingerprintsHasNoChannel() throws {
        try SyncWorld.run { world in
            let unnamed = AdapterPlace(
                name: "tiny", drafter: world.models.drafter, target: modelEntry("target", vocabSize: 13),
                draftFingerprint: world.map.draftFingerprint, targetFingerprint: world.map.targetFingerprint)
            XCTAssertEqual(try faultOf { _ = try channelOf(unnamed) }, "no_fingerprint")
        }
    }

    func testASourceThatGivesTooMuchIsRefused() throws {
        try SyncWorld.run { world in
            let large = GivenSource { _, most in [UInt8](repeating: 0, count: most + 1) }
            XCTAssertEqual(try world.fault(large), "too_large")
            let refusing = GivenSource { _, _ in throw syncError("too_large", "it is", "") }
            XCTAssertEqual(try world.fault(refusing), "too_large")
            XCTAssertEqual(try world.fault(GivenSource { _, _ in nil }), "missing")
        }
    }

    func testNamesInMessagesAreShort() {
        let hash = String(repeating: "0123456789abcdef", count: 4)
        XCTAssertEqual(shortName("channels/\(hash)/files/\(hash).odc"), "channels/0123456789ab/files/0123456789ab.odc")
        XCTAssertEqual(shortName("channels/\(hash)0/latest"), "channels/\(hash)0/latest")
        let now = utc()
        XCTAssertEqual(try timeIn(ArraySlice(now.utf8)), now)
        XCTAssert("2026-01-01T00:00:00Z" < now)
    }

    private func flip(_ file: String, _ at: Int) throws {
        var data = try readFile(file, most: 1 << 20)
        data[min(at, data.count - 1)] ^= 1
        try put(file, data)
    }
}
