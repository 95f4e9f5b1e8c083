import Foundation
import XCTest

@testable import OmniDraft

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// What a device shares: the files that were chosen, in the layout of a store, and nothing else.
final class PushTests: XCTestCase {
    func testAPushHoldsWhatWasChosen() throws {
        try SyncWorld.run { world in
            let out = joined(world.place, "out")
            let channel = try world.channel()
            let pair = Vocabularies(world.map)
            let contents = PushContents(
                adapter: try world.adapter(1), cache: world.table(SyncWorld.grams, hits: 2), accepted: 51)
            let files = try writePush(out, device: "phone-1", channel, contents, pair)
            let place = "\(out)/channels/\(channel.id)/devices/phone-1"
            XCTAssertEqual(files.last, "\(place)/push")
            XCTAssertEqual(files.count, 3)
            for file in files { XCTAssertEqual(try mode(file), 0o600) }
            let push = try decodePush(readFile(files[2], most: mostPushBytes))
            XCTAssertEqual(push.channel, channel)
            XCTAssertEqual(push.accepted, 51)
            XCTAssertEqual(push.traces, [])
            XCTAssertEqual(files[0], "\(place)/\(try XCTUnwrap(push.adapter).sha256).safetensors")
            XCTAssertEqual(files[1], "\(place)/\(try XCTUnwrap(push.cache).sha256).odc")
            XCTAssertEqual(try readAdapter(files[0]).digest, try world.adapter(1).digest)
            XCTAssertEqual(try readCacheTable(files[1], world.map).targets.array(), SyncWorld.grams)

            try put("\(place)/a note", [1])
            let second = PushContents(adapter: try world.adapter(2), accepted: -1)
            let next = try writePush(out, device: "phone-1", channel, second, pair)
            XCTAssertEqual(Set(namesIn(place)), Set(["a note", "push"] + [split(next[0]).name]))
            XCTAssertEqual(try decodePush(readFile(next[1], most: mostPushBytes)).accepted, 0)
        }
    }

    func testSegmentsArePushedWordForWord() throws {
        try SyncWorld.run { world in
            let traces = joined(world.place, "traces")
            let pair = Vocabularies(world.map)
            let store = try TraceStore(traces, pair)
            let half = Masses(ids: [6], probabilities: [0.5], rest: 0.5)
            let token = TracedToken(
                tokenId: 6, surprisal: 0.5, accepted: true, inside: false, pieces: [1, 4], distribution: half,
                roots: Masses(ids: [1], probabilities: [0.5], rest: 0.5), unspelled: 0)
            let round = TracedRound(
                position: 2, draft: [1, 4], evaluated: 2, acceptedDrafts: 2, labels: [], tokens: [token])
            _ = store.append(round, at: nil) {
                TraceStart(
                    drafterAdapter: nil, targetAdapter: nil, temperature: 0, mode: "trie", continues: false, skipped: 0,
                    context: [0, 1])
            }
            store.close()
            XCTAssertNil(store.problem)
            let segment = try XCTUnwrap(segmentsOf(traces).first)
            let out = joined(world.place, "out")
            let contents = PushContents(traces: traces)
            let channel = try world.channel()
            let files = try writePush(out, device: "phone", channel, contents, pair)
            let push = try decodePush(readFile(files[1], most: mostPushBytes))
            XCTAssertEqual(push.traces.map(\.name), [split(segment).name])
            XCTAssertEqual(try readFile(files[0], most: maxSegmentBytes), try readFile(segment, most: maxSegmentBytes))

            let other = Vocabularies(
                draftFingerprint: String(repeating: "0", count: 64), targetFingerprint: pair.targetFingerprint,
                draftSize: pair.draftSize, targetSize: pair.targetSize)
            let before = try everything(out)
            func fault(_ vocabularies: Vocabularies) throws -> String? {
                try faultOf { _ = try writePush(out, device: "phone", channel, contents, vocabularies) }
            }
            XCTAssertEqual(try fault(other), "foreign_vocabulary")
            try put(segment, Array(readFile(segment, most: maxSegmentBytes).dropFirst(4)))
            XCTAssertEqual(try fault(pair), "not_a_trace")
            removeTree(traces)
            XCTAssertEqual(try fault(pair), "unreadable")
            try makeDirectories(traces)
            XCTAssertEqual(try fault(pair), "not_a_trace")
            XCTAssertEqual(try everything(out), before)
        }
    }

    func testWhatCannotBePushedIsRefused() throws {
        try SyncWorld.run { world in
            let (out, channel, pair) = (joined(world.place, "out"), try world.channel(), Vocabularies(world.map))
            let contents = PushContents(adapter: try world.adapter(1))
            for name in ["", ".a", "-a", "a/b", "a b", "ä", "..", String(repeating: "a", count: 65)] {
                XCTAssertThrowsError(try writePush(out, device: name, channel, contents, pair), name) { error in
                    guard case OmniDraftError.setting? = error as? OmniDraftError else { return XCTFail("\(error)") }
                }
            }
            XCTAssertThrowsError(try writePush(out, device: "a", channel, PushContents(), pair))
            XCTAssertFalse(exists(out))
            try put(out, [])
            XCTAssertEqual(
                try faultOf { _ = try writePush(out, device: "a", channel, contents, pair) }, "unwritable")
            for name in ["a", "7", "A.b-c_d", String(repeating: "a", count: 64)] {
                XCTAssertEqual(try checkDevice(name), name)
            }
        }
    }

    private func mode(_ file: String) throws -> mode_t {
        var status = stat()
        XCTAssertEqual(stat(file, &status), 0)
        return status.st_mode & 0o777
    }
}
