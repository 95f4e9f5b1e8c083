import XCTest

@testable import OmniDraft

/// Records and pointers with changed bytes are refused by name or read; nothing else ever happens.
final class SyncFuzzTests: XCTestCase {
    func testChangedFiles() throws {
        try SyncWorld.run { world in
            let files = ChangedFiles(15)
            let release = try world.publish(7)
            _ = try world.pull()
            let common: Set = ["malformed", "too_large", "version", "other_kind"]
            try files.check([release.text], common, rare: ["too_large"]) {
                let data = files.changed($0)
                let read = try parseRecord(data, .release)
                XCTAssertEqual(read.text, data)
            }
            let file = try readFile(world.release, most: 1 << 20)
            for at in stride(from: 0, to: file.count, by: 37) {
                XCTAssertNotNil(try world.fault({ flipped($0, at) }), "byte \(at)")
            }
            try files.check([readFile(world.pointer, most: 4096)], ["malformed"]) {
                let data = files.changed($0)
                try put(world.pointer, data)
                let read = try readInstalled(world.into)
                XCTAssertEqual(read?.text, data)
            }
        }
    }
}
