import XCTest

@testable import OmniDraft

/// Releases, pushes and pointers with changed bytes are refused by name or read; nothing else ever happens.
final class SyncFuzzTests: XCTestCase {
    func testChangedFiles() throws {
        try SyncWorld.run { world in
            let files = ChangedFiles(15)
            let release = try world.publish(7)
            _ = try world.pull()
            let file = try readFile(world.latest(), most: 4096)
            let common: Set = ["malformed", "too_large", "version"]
            try files.check([file], common.union(["not_a_release"]), rare: ["too_large"]) {
                let data = files.changed($0)
                let text = try decodeRelease(data, publicKey: nil).release.text
                XCTAssertEqual(text, Array(data.dropFirst(signatureBytes)))
            }
            try files.check([file], common.union(["other_key", "wrong_signature"]), rare: common, least: 0) {
                let data = files.changed($0)
                _ = try decodeRelease(data, publicKey: world.publicKey)
                XCTAssertEqual(data, file)
            }
            let trace = PushedTrace(name: "trace-0000000001.odt", file: try XCTUnwrap(release.cache))
            let push = Push(
                device: "phone", channel: release.channel, created: release.created, accepted: 5,
                adapter: release.adapter, cache: release.cache, traces: [trace])
            try files.check([encodePush(push)], common.union(["not_a_push"]), rare: ["too_large"]) {
                let data = files.changed($0)
                let read = try decodePush(data)
                XCTAssertEqual(encodePush(read), data)
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
