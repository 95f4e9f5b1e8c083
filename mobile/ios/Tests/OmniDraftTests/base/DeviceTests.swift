import Foundation
import XCTest

@testable import OmniDraft

/// What a device remembers: records and stamps; and bundles that hold what they must not.
final class DeviceTests: XCTestCase {
    private let seal = String(repeating: "5e", count: 32)

    func testARecordComesBackAndADirectoryOfOthersIsNotUsed() throws {
        try inDirectory { place in
            let state = StateDirectory(root: joined(place, "state"))
            XCTAssertNil(state.readRecord("kind", "key"))
            XCTAssert(state.writeRecord("kind", "key", [1, 2]))
            XCTAssertEqual(state.readRecord("kind", "key"), [1, 2])
            XCTAssertFalse(state.writeRecord("kind", "large", [UInt8](repeating: 0, count: mostRecordBytes + 1)))
            let kind = joined(place, "state/kind")
            var status = stat()
            XCTAssertEqual(stat(kind, &status), 0)
            XCTAssertEqual(status.st_mode & 0o777, 0o700)
            XCTAssertEqual(chmod(kind, 0o750), 0)
            XCTAssertNil(state.readRecord("kind", "key"))
            XCTAssertFalse(state.writeRecord("kind", "key", [3]))
        }
    }

    func testAnOldRecordIsNotUsed() throws {
        try inDirectory { place in
            let state = StateDirectory(root: joined(place, "state"))
            XCTAssert(state.writeRecord("kind", "key", [1]))
            let hourAgo = Date().addingTimeInterval(-3600)
            try FileManager.default.setAttributes(
                [.modificationDate: hourAgo], ofItemAtPath: joined(place, "state/kind/key.json"))
            XCTAssertNil(state.readRecord("kind", "key", mostAge: 3000))
            XCTAssertEqual(state.readRecord("kind", "key", mostAge: 4000), [1])
        }
    }

    func testKeptCostsAreOutdatedWherePassesTakeTwiceAsLong() throws {
        try inDirectory { place in
            let state = StateDirectory(root: place)
            let measured = Costs(target: [0.1, 0.2], draft: 0.01, host: 0.001)
            let here = thisMachine(onnxruntime: "1.23.0", threads: 2)
            for (factor, length, outdated) in [(2.01, 512, true), (1.99, 512, false), (2.01, 513, false)] {
                XCTAssert(keepCosts(state, seal: seal, here, measured))
                let kept = deviceCosts(
                    state, seal: seal, costs: measured, measuredOn: nil, here: here, measure: .auto
                ) { nil }
                var watch = CostsWatch(kept.costs)
                let passes = (0..<9).map { 1 + $0 % 3 }.map { ($0, factor * measured.passSeconds($0)) }
                let found = (passes + Array(repeating: (1, 0), count: 7)).map {
                    watch.areOutdated(tokens: $0.0, seconds: $0.1, length: length)
                }
                XCTAssertEqual(found, Array(repeating: false, count: 15) + [outdated])
                XCTAssertFalse(watch.areOutdated(tokens: 1, seconds: 1e9, length: 0), "asked once")
                if outdated { kept.forget() }
                XCTAssertEqual(keptCosts(state, seal: seal, here) == nil, outdated)
            }
        }
    }

    func testADirectoryBehindALinkOrThatOthersCanWriteIsNotUsed() throws {
        try inDirectory { place in
            let root = joined(place, "state")
            let state = StateDirectory(root: root)
            XCTAssert(state.writeRecord("kind", "key", [1]))
            XCTAssertEqual(chmod(root, 0o770), 0)
            XCTAssertNil(state.readRecord("kind", "key"))
            XCTAssertFalse(state.writeRecord("kind", "key", [2]))
            XCTAssertEqual(chmod(root, 0o700), 0)
            for path in [joined(root, "kind"), root] {
                XCTAssertEqual(rename(path, joined(place, "private")), 0)
                XCTAssertEqual(symlink(joined(place, "private"), path), 0)
                XCTAssertNil(state.readRecord("kind", "key"))
                XCTAssertFalse(state.writeRecord("kind", "key", [2]))
                XCTAssertEqual(unlink(path), 0)
                XCTAssertEqual(rename(joined(place, "private"), path), 0)
            }
            XCTAssertEqual(state.readRecord("kind", "key"), [1])
        }
    }

    func testNothingIsRememberedWhereThereIsNoPlace() throws {
        try inDirectory { place in
            XCTAssertFalse(StateDirectory.none.writeRecord("kind", "key", [0]))
            XCTAssertNil(StateDirectory.none.readRecord("kind", "key"))
            let file = joined(place, "file")
            try put(file, [1])
            XCTAssertFalse(StateDirectory(root: joined(file, "state")).writeRecord("kind", "key", [0]))
        }
    }

    func testTheOldestRecordsAreDeleted() throws {
        try inDirectory { place in
            let state = StateDirectory(root: place)
            func key(_ number: Int) -> String {
                let digits = String(number, radix: 16)
                return String(repeating: "0", count: 32 - digits.count) + digits
            }
            for number in 0...mostRecords {
                XCTAssert(state.writeRecord("kind", key(number), [0]))
                let date = Date(timeIntervalSince1970: Double(number + 1))
                let file = joined(place, "kind/\(key(number)).json")
                if exists(file) {
                    try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file)
                }
            }
            let mine = joined(place, "kind/mine.json")
            try put(mine, [1])
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: 0)], ofItemAtPath: mine)
            XCTAssert(state.writeRecord("kind", key(mostRecords + 1), [0]))
            XCTAssertEqual(namesIn(joined(place, "kind")).count, mostRecords + 1)
            XCTAssert(exists(mine))
            XCTAssertNil(state.readRecord("kind", key(0)))
            XCTAssertEqual(state.readRecord("kind", key(mostRecords + 1)), [0])
        }
    }

    func testAFileThatChangedIsNotTheOneThatWasChecked() throws {
        try inDirectory { place in
            let state = StateDirectory(root: joined(place, "state"))
            let file = joined(place, "file")
            func stamps() throws -> ByName<Stamp> { ByName([("file", try stampOf(file))]) }
            try put(file, Array("content".utf8))
            let before = try stamps()
            XCTAssert(try stampOf(file).isComplete)
            XCTAssertFalse(wasChecked(state, path: place, seal: seal, stamps: before))
            XCTAssert(rememberCheck(state, path: place, seal: seal, stamps: before, now: .max))
            XCTAssert(wasChecked(state, path: place, seal: seal, stamps: try stamps()))
            XCTAssertFalse(wasChecked(state, path: place, seal: String(repeating: "0", count: 64), stamps: before))
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            try put(file, Array("CONTENT".utf8))
            let modified = attributes.filter { $0.key == .modificationDate }
            try FileManager.default.setAttributes(modified, ofItemAtPath: file)  // as a copy that keeps times
            XCTAssertFalse(wasChecked(state, path: place, seal: seal, stamps: try stamps()))
        }
    }

    func testAFileThatChangedAMomentAgoIsNotRemembered() throws {
        try inDirectory { place in
            let state = StateDirectory(root: joined(place, "state"))
            let file = joined(place, "file")
            try put(file, Array("content".utf8))
            let stamp = try stampOf(file)
            let stamps = ByName([("file", stamp)])
            XCTAssertFalse(
                rememberCheck(state, path: place, seal: seal, stamps: stamps, now: stamp.changed + 2_999_999_999))
            XCTAssert(rememberCheck(state, path: place, seal: seal, stamps: stamps, now: stamp.changed + 3_000_000_000))
            // A file system without them: hashed in full.
            let coarse = Stamp(size: stamp.size, modified: stamp.modified, changed: 0, inode: 0, device: 0)
            XCTAssertFalse(rememberCheck(state, path: place, seal: seal, stamps: ByName([("file", coarse)]), now: .max))
        }
    }

    func testTheSignatureIsCheckedBeforeTheManifestIsRead() throws {
        let key = [UInt8](repeating: 7, count: 32)
        try inBundle { place in
            try put(joined(place, manifestName), Array("no JSON".utf8))
            XCTAssertEqual(try faultOf { _ = try openBundle(place, publicKey: key) }, "unsigned")
            try put(joined(place, signatureName), [])
            XCTAssertEqual(try faultOf { _ = try openBundle(place, publicKey: key) }, "malformed")
            let other = Signature(keyId: String(repeating: "0", count: 16), value: [UInt8](repeating: 0, count: 64))
            try put(joined(place, signatureName), encodeSignature(other))
            XCTAssertEqual(try faultOf { _ = try openBundle(place, publicKey: key) }, "other_key")
            settingRefusal { _ = try openBundle(place, publicKey: [1]) }
        }
    }

    func testATemplateIsReadOnceAndItsBytesAreThoseThatWereHashed() throws {
        try inBundle { place in
            let bundle = try openBundle(place)
            let name = "target/chat_template.jinja"
            XCTAssertEqual(try checkedBytes(bundle, name, most: 1 << 10), Array(name.utf8))
            XCTAssertEqual(try faultOf { _ = try checkedBytes(bundle, name, most: 3) }, "unreadable")
            try put(joined(place, name), Array(name.utf8.reversed()))
            XCTAssertEqual(try faultOf { _ = try checkedBytes(bundle, name, most: 1 << 10) }, "checksum")
            XCTAssertEqual(try faultOf { _ = try checkedBytes(bundle, "note", most: 1 << 10) }, "no_hash")
        }
    }

    func testAGraphIsLookedAtBeforeAnEngineGetsIt() throws {
        try inBundle { place in
            let bundle = try openBundle(place)
            let graph = bundle.target.graph
            XCTAssertEqual(try faultOf { _ = try checkedGraph(bundle, graph) }, "outside")  // its content is its name
            try put(joined(place, graph), [])
            XCTAssertEqual(try faultOf { _ = try checkedGraph(bundle, graph) }, "outside")
            try put(joined(place, graph), [8, 8])  // a version and nothing else
            XCTAssertEqual(try checkedGraph(bundle, graph), try bundle.file(graph))
        }
    }

    func testAChangedByteOfAnyFileIsFound() throws {
        let original = try made("b")
        try inDirectory { folder in
            let place = joined(folder, "b")
            try FileManager.default.copyItem(atPath: original, toPath: place)
            var names = try openBundle(place).files.names
            #if DEBUG
                names = Array(names.prefix(2))  // a debug build hashes slowly
            #endif
            for name in names {
                let file = joined(place, name)
                let handle = try XCTUnwrap(FileHandle(forUpdatingAtPath: file))
                defer { try? handle.close() }
                let middle = UInt64(try OpenFile(file).size / 2)
                func flip() throws {
                    try handle.seek(toOffset: middle)
                    let byte = try XCTUnwrap(handle.read(upToCount: 1)?.first)
                    try handle.seek(toOffset: middle)
                    try handle.write(contentsOf: [byte ^ 1])
                }
                try flip()
                XCTAssertEqual(try faultOf { _ = try openBundle(place) }, "checksum", name)
                try flip()
            }
            _ = try openBundle(place)
        }
    }
}
