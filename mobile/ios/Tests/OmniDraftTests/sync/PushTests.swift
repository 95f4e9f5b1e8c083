import XCTest

@testable import OmniDraft

/// What a device refuses to push; `sync/record` of the vectors has what it signs.
final class PushTests: XCTestCase {
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
