import Foundation
import XCTest

@testable import OmniDraft

private let pair = Vocabularies(
    draftFingerprint: String(repeating: "d", count: 64), targetFingerprint: String(repeating: "e", count: 64),
    draftSize: 4000, targetSize: 60_000)

/// Traces on disk: bounded, private, claimed by one, killed at any moment, wiped without a loss to others.
final class TraceStoreTests: FolderTestCase {
    private var path: String { joined(place, "t") }

    /// Runs `body` with an open store, which is closed then.
    private func withStore(_ path: String? = nil, _ body: (TraceStore) throws -> Void) throws {
        let store = try TraceStore(path ?? self.path, pair, maxBytes: Defaults.traceLeastBytes)
        defer { store.close() }
        try body(store)
    }

    private func traces(_ path: String? = nil, _ pair: Vocabularies? = pair) throws -> [Traced] {
        var all: [Traced] = []
        try readTraces([path ?? self.path], pair) { all.append($0) }
        return all
    }

    private func segments(_ path: String? = nil) throws -> [(file: String, segment: TraceSegment)] {
        var all: [(String, TraceSegment)] = []
        try readSegments(path ?? self.path) { all.append(($0, $1)) }
        return all
    }

    private func numbers(_ path: String? = nil) throws -> [Int] {
        try traces(path).flatMap(\.rounds).map { Int($0.tokens[0].tokenId) }
    }

    private func bytes(_ file: String) throws -> [UInt8] { try readFile(file, most: .max) }

    /// The fault of a store that cannot be opened; its message names the place.
    private func refusal(_ path: String? = nil, _ pair: Vocabularies = pair) throws -> String {
        let path = path ?? self.path
        do {
            _ = try TraceStore(path, pair)
        } catch OmniDraftError.traceFile(let refusal) {
            XCTAssert(refusal.message.contains(path), refusal.message)
            return refusal.fault
        }
        return "it was opened"
    }

    func testRoundsComeBackInOrderAndRecordsAreToldApart() throws {
        let store = try TraceStore(path, pair, maxBytes: Defaults.traceLeastBytes)
        recordRounds(store, 1, 5)
        recordRounds(store, 6, 3)
        XCTAssertEqual(try traces().map(\.rounds.count), [5, 3])
        store.close()
        XCTAssertNil(recordRounds(store, 9, 1), "it is closed")
        store.close()
        try withStore { recordRounds($0, 9, 1) }  // goes on with the same file
        XCTAssertEqual(try numbers(), Array(1...9))
        XCTAssertEqual(try segmentsOf(path).count, 1)
    }

    func testTheRingKeepsItsBoundAndTheLatest() throws {
        var at: SegmentPlace?
        var last = 0
        try withStore { store in
            for _ in 0..<60 {
                at = recordRounds(store, last + 1, 200, at: at)
                last += 200
                let sizes = try segmentsOf(path).map { try OpenFile($0).size }
                XCTAssert(
                    sizes.reduce(0, +) <= Defaults.traceLeastBytes && sizes.max()! <= Defaults.traceLeastBytes / 8)
            }
        }
        let recorded = try numbers()
        XCTAssertGreaterThan(recorded[0], 1, "nothing was dropped")
        XCTAssertEqual(recorded, Array(recorded[0]...last))
        let whole = try segmentsOf(path).reduce(0) { $0 + (try OpenFile($1).size) }
        XCTAssertGreaterThan(whole, Defaults.traceLeastBytes * 3 / 4)
        // Each segment can be read alone, and says that its first record goes on.
        for (file, segment) in try segments() {
            XCTAssert(segment.generations().allSatisfy(\.start.continues))
            XCTAssertEqual(try traces(file).count, 1)
        }
    }

    func testATornEndStaysAndRecordingGoesOnBehindIt() throws {
        try withStore { recordRounds($0, 1, 4) }
        let file = try segmentsOf(path)[0]
        let torn = Array(try bytes(file).dropLast(5))
        try put(file, torn)
        try withStore { recordRounds($0, 9, 1) }
        XCTAssertEqual(try numbers(), [1, 2, 3, 9])
        XCTAssertEqual(try bytes(file), torn, "what was there was changed")
        XCTAssertEqual(try segments().map { $0.segment.torn > 0 }, [true, false])
    }

    func testWhereverAKillCutsOffAWriteTheRoundsBeforeItAreReadAndRecordingGoesOn() throws {
        try withStore { recordRounds($0, 1, 3) }
        let file = try segmentsOf(path)[0]
        let whole = try bytes(file)
        let ends = try scanFrames(Bytes(whole)).ends
        for length in ends[ends.count - 2]..<whole.count {  // of the last round
            try put(file, Array(whole[..<length]))
            XCTAssertEqual(try numbers(), [1, 2], "cut at \(length)")
            try withStore { XCTAssertNotNil(recordRounds($0, 9, 1)) }
            XCTAssertEqual(try numbers(), [1, 2, 9], "cut at \(length)")
            for other in try segmentsOf(path).dropFirst() { unlink(other) }
        }
    }

    func testADamagedFileIsRefusedByNameAndRecordingGoesOn() throws {
        try withStore { recordRounds($0, 1, 4) }
        let file = try segmentsOf(path)[0]
        var data = try bytes(file)
        data[150] ^= 1
        try put(file, data)
        try withStore { recordRounds($0, 9, 1) }
        XCTAssertThrowsError(try numbers()) { error in
            guard case OmniDraftError.traceFile(let refusal) = error else { return XCTFail("\(error)") }
            XCTAssertEqual(refusal.fault, "checksum")
            XCTAssert(refusal.message.contains(split(file).name), refusal.message)
        }
        XCTAssertEqual(try numbers(segmentsOf(path)[1]), [9])
    }

    func testAPlaceInUseIsRefused() throws {
        try withStore { store in
            recordRounds(store, 1, 1)
            XCTAssertEqual(try refusal(), "in_use")
        }
        try withStore { XCTAssert($0.isRecording) }
    }

    func testFilesAreTheirOwnersAlone() throws {
        try withStore { recordRounds($0, 1, 1) }
        func mode(_ file: String) -> mode_t {
            var status = stat()
            return stat(file, &status) == 0 ? status.st_mode & 0o777 : 0
        }
        XCTAssertEqual(mode(path), 0o700)
        XCTAssertEqual(mode(try segmentsOf(path)[0]), 0o600)
    }

    func testGenerationsThatAWipeInterruptsGoOnInRecordsOfTheirOwn() throws {
        try withStore { store in
            let (first, second) = (recordRounds(store, 1, 1), recordRounds(store, 2, 1))
            try store.wipe()
            recordRounds(store, 3, 1, at: first)
            recordRounds(store, 4, 1, at: second)
            recordRounds(store, 5, 1)
        }
        let read = try traces()
        XCTAssertEqual(read.map { $0.rounds.map { Int($0.tokens[0].tokenId) } }, [[3], [4], [5]])
        XCTAssertEqual(read.map(\.start.continues), [true, true, false])
    }

    func testOtherVocabulariesAreRefused() throws {
        try withStore { recordRounds($0, 1, 1) }
        let other = String(repeating: "a", count: 64)
        let (draft, target) = (pair.draftFingerprint, pair.targetFingerprint)
        let pairs = [
            (other, target, 4000, 60_000), (draft, other, 4000, 60_000), (draft, target, 9, 60_000),
            (draft, target, 4000, 9),
        ]
        for (draft, target, draftSize, targetSize) in pairs {
            let foreign = Vocabularies(
                draftFingerprint: draft, targetFingerprint: target, draftSize: draftSize, targetSize: targetSize)
            XCTAssertEqual(try refusal(nil, foreign), "foreign_vocabulary")
            XCTAssertEqual(try faultOf { _ = try traces(nil, foreign) }, "foreign_vocabulary")
        }
        XCTAssertEqual(try numbers(), [1])
    }

    func testPlacesThatCannotBeRecordedIn() throws {
        let file = joined(place, "file")
        try put(file, Array("mine".utf8))
        XCTAssertEqual(try refusal(file), "unwritable")
        XCTAssertEqual(try refusal(joined(file, "no/where")), "unwritable")
        XCTAssertEqual(try bytes(file), Array("mine".utf8))
        settingRefusal { _ = try TraceStore(path, pair, maxBytes: 5) }
        let faults = try [joined(place, "absent"), file, place].map { each in try faultOf { _ = try traces(each) } }
        XCTAssertEqual(faults, ["unreadable", "not_a_trace", "not_a_trace"])
    }

    func testADirectoryThatIsGoneEndsTheRecordingAndNothingElse() throws {
        let store = try TraceStore(path, pair, maxBytes: Defaults.traceLeastBytes)
        removeTree(path)
        XCTAssertNil(recordRounds(store, 1, 1))
        XCTAssert((store.problem ?? "").contains("recording stopped"), store.problem ?? "no problem")
        XCTAssertFalse(store.isRecording)
        XCTAssertNil(recordRounds(store, 2, 1))
        XCTAssertEqual(try faultOf { try store.wipe() }, "unwritable")
        store.close()
    }

    func testNoSegmentIsWrittenThroughALink() throws {
        try withStore { recordRounds($0, 1, 1) }
        let (file, elsewhere) = (try segmentsOf(path)[0], joined(place, "elsewhere"))
        try renameFile(file, elsewhere)
        let before = try bytes(elsewhere)
        XCTAssertEqual(symlink(elsewhere, file), 0)
        XCTAssertEqual(try refusal(), "unwritable")
        XCTAssertEqual(try bytes(elsewhere), before)
    }

    func testSessionsInSeveralThreadsMayShareAStore() throws {
        try withStore { store in
            DispatchQueue.concurrentPerform(iterations: 4) { _ in recordRounds(store, 1, 300) }
        }
        let records = try traces()
        XCTAssertEqual(records.reduce(0) { $0 + $1.rounds.count }, 1200)
        XCTAssertEqual(records.count { !$0.start.continues }, 4)
    }

    func testAPauseRecordsNothing() throws {
        try withStore { store in
            let at = recordRounds(store, 1, 2)
            store.pause()
            XCTAssertFalse(store.isRecording)
            XCTAssertNil(recordRounds(store, 3, 1, at: at))
            store.resume()
            recordRounds(store, 4, 1, at: at)
        }
        XCTAssertEqual(try numbers(), [1, 2, 4])
    }
}
