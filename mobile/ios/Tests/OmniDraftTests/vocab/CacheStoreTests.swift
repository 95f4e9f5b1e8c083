import Foundation
import XCTest

@testable import OmniDraft

/// Caches on disk: read or started empty; a file of ours is replaced, any other file is kept.
final class CacheStoreTests: FolderTestCase {
    private let damaged = ["version_1.bin", "flipped_pieces.bin", "last_byte_missing.bin"]
    private let foreign = "foreign_target.bin"
    private var file: String { joined(place, "c") }

    private func toy() throws -> VocabMap { try vectorMap("toy") }

    private func learned() throws -> NgramCache {
        let cache = try NgramCache(toy())
        cache.learn([5, 6], 1)
        return cache
    }

    @discardableResult
    private func putInvalid(_ name: String) throws -> [UInt8] {
        let data = try bytes("\(vectorRoot)/cache/invalid/\(name)")
        try put(file, data)
        return data
    }

    private func bytes(_ path: String) throws -> [UInt8] { try readFile(path, most: .max) }

    private func problem(_ path: String) throws -> String { try openCache(path, toy()).problem ?? "no problem" }

    func testACacheIsSavedAndOpened() throws {
        let cache = try learned()
        XCTAssertNil(try writeCache(file, cache))
        let opened = try openCache(file, toy())
        XCTAssertNil(opened.problem)
        XCTAssertEqual(opened.cache.entries(), cache.entries())
        XCTAssertEqual(try encodeCache(opened.cache.table()), try bytes(file))
        XCTAssertEqual(namesIn(place), ["c"])
        var status = stat()
        XCTAssertEqual(stat(file, &status), 0)
        XCTAssertEqual(status.st_mode & 0o777, 0o600)
    }

    func testNoFileIsAnEmptyCacheAndNoProblem() throws {
        let opened = try openCache(file, toy(), capacity: 7)
        XCTAssertNil(opened.problem)
        XCTAssertEqual([opened.cache.count, opened.cache.capacity], [0, 7])
    }

    func testWhatBecomesOfARefusedFileIsSaid() throws {
        let alone = "it is left alone, and nothing is saved there"
        for (name, after) in [
            ("empty_file.bin", "saving replaces it"), ("flipped_pieces.bin", "saving keeps it under another name"),
            ("other_file.bin", alone), (foreign, alone),
        ] {
            try putInvalid(name)
            let problem = try problem(file)
            XCTAssert(problem.hasPrefix("starting with an empty cache: \(file) is refused: it"), problem)
            XCTAssert(problem.hasSuffix("; \(after)") && !problem.contains("\n"), problem)
        }
    }

    func testADirectoryALoopOfLinksAndANameOfNoFileAreUnreadable() throws {
        let loop = joined(place, "loop")
        XCTAssertEqual(symlink(loop, loop), 0)
        for place in [place, joined(place, "a\u{0}b")] {
            XCTAssertEqual(try faultOf { _ = try readCacheTable(place) }, "unreadable")
            XCTAssert(try problem(place).contains("cannot be read"), place)
        }
        XCTAssertEqual(try faultOf { _ = try readCacheTable(loop) }, "unreadable")
    }

    func testAFileThatGoesOnIsNotReadToItsEnd() throws {
        try writeCache(file, learned())
        try put(file, bytes(file) + [0, 0, 0, 0, 0])
        XCTAssertEqual(try faultOf { _ = try readCacheTable(file) }, "trailing_bytes")
    }

    func testWhatIsNotOursIsLeftAlone() throws {
        for (name, fault) in [("other_file.bin", "not_a_cache"), (foreign, "foreign_vocabulary")] {
            let data = try putInvalid(name)
            XCTAssertEqual(try faultOf { try writeCache(file, learned()) }, fault)
            XCTAssertEqual(try bytes(file), data)
            XCTAssertEqual(namesIn(place), ["c"])
        }
    }

    func testADamagedCacheIsPutAsideUnderANameOfItsOwn() throws {
        var kept: [(path: String, data: [UInt8])] = []
        for (number, name) in damaged.enumerated() {
            let data = try putInvalid(name)
            let path = joined(place, number == 0 ? "c.refused" : "c.refused-\(number + 1)")
            XCTAssertEqual(try writeCache(file, learned()), path)
            kept.append((path, data))
        }
        for each in kept { XCTAssertEqual(try bytes(each.path), each.data) }
        XCTAssertNil(try writeCache(file, learned()), "a cache of ours is replaced")
    }

    func testATableTakesNoOtherFilesPlace() throws {
        for name in damaged + [foreign, "other_file.bin"] {
            let data = try putInvalid(name)
            XCTAssertEqual(try faultOf { try writeCacheTable(file, learned().table()) }, "unwritable")
            XCTAssertEqual(try bytes(file), data)
        }
    }

    func testOnlyAFileIsReplaced() throws {
        let long = joined(place, String(repeating: "x", count: 250))
        for place in [place, joined(place, "no/file"), long] {
            XCTAssertEqual(try faultOf { try checkPlace(place) }, "unwritable")
            XCTAssertEqual(try faultOf { try writeCache(place, learned()) }, "unwritable")
        }
        XCTAssertEqual(namesIn(place), [])
    }
}
