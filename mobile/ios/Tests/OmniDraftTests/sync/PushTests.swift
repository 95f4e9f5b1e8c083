import XCTest

@testable import OmniDraft

/// Pushes: one file with what was chosen, signed by the key of a device.
final class PushTests: XCTestCase {
    func testAPushHoldsWhatItWasGiven() throws {
        try SyncWorld.run { world in
            let adapter = try encodeAdapter(world.adapter(1))
            let contents = PushContents(adapter: adapter, traces: [[1, 2], [3]], accepted: 12)
            let seed = try deviceSeed(joined(world.place, "device.key"))
            XCTAssertEqual(try deviceSeed(joined(world.place, "device.key")), seed)
            let (key, data) = try writePush(world.channel(), contents, seed: seed)
            let push = try readSigned(data, .push, publicKey: nil)
            XCTAssertEqual(push.record.key, key)
            XCTAssertEqual([push.adapter, push.cache], [adapter, nil])
            XCTAssertEqual(push.traces, [[1, 2], [3]])
            XCTAssertEqual(push.record.accepted, 12)
            try checkCurrent(push.record, world.channel())
            XCTAssertEqual(try faultOf { _ = try readSigned(data, .release, publicKey: nil) }, "other_kind")
            XCTAssertEqual(
                try faultOf { _ = try readSigned(data, .push, publicKey: world.publicKey) }, "other_key")
        }
    }

    func testWhatCannotBePushed() throws {
        try SyncWorld.run { world in
            let file = joined(world.place, "device.key")
            let seed = try deviceSeed(file)
            XCTAssertThrowsError(try writePush(world.channel(), PushContents(), seed: seed))
            let large = PushContents(traces: [[UInt8](repeating: 0, count: Defaults.syncMaxBytes)])
            XCTAssertEqual(try faultOf { _ = try writePush(world.channel(), large, seed: seed) }, "too_large")
            try put(file, [1, 2, 3])
            XCTAssertEqual(try faultOf { _ = try deviceSeed(file) }, "malformed")
            XCTAssertEqual(try faultOf { _ = try deviceSeed(joined(world.place, "absent/key")) }, "unwritable")
        }
    }
}
