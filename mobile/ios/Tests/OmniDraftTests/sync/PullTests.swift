import Foundation
import XCTest

@testable import OmniDraft

private let worse = AdapterComparison(
    generations: 20, positions: 900, current: 0.4, offered: 0.3, low: -0.12, high: -0.08)
private let better = AdapterComparison(
    generations: 20, positions: 900, current: 0.3, offered: 0.4, low: 0.08, high: 0.12)
private let even = AdapterComparison(
    generations: 20, positions: 900, current: 0.3, offered: 0.31, low: -0.01, high: 0.03)
private let tooFew = AdapterComparison(generations: 3, positions: 100, current: 0.3, offered: 0.4)

/// Pulling: a better release is taken once, and after every failure the adapter in use stays.
final class PullTests: XCTestCase {
    func testAReleaseIsTakenUpOnceAndMerged() throws {
        try SyncWorld.run { world in
            let release = try world.publish(3)
            let cache = joined(world.place, "mine.odc")
            try writeCacheTable(cache, world.table([5], hits: 5, accepted: 5))
            let pulled = try world.pull { $0.cache = cache }
            XCTAssertEqual(pulled.outcome, .switched)
            XCTAssertEqual(pulled.release, release)
            XCTAssertEqual(pulled.learned, 3)
            XCTAssertEqual(pulled.key, keyId(world.publicKey))
            XCTAssertEqual(try world.inUse(), try world.adapter(3).digest)
            let mine = try readCacheTable(cache)
            XCTAssertEqual(mine.targets.array(), SyncWorld.grams)
            XCTAssertEqual(mine.hits.array(), [5, 4, 4, 4])
            XCTAssertEqual(mine.accepted.array(), [5, 0, 0, 0])
            let before = try everything(world.place)
            let again = try world.pull { $0.cache = cache }
            XCTAssertEqual(again.outcome, .newest)
            XCTAssertEqual(again.learned, 0)
            XCTAssertEqual(try everything(world.place), before)
            let new = joined(world.place, "new.odc")
            XCTAssertEqual(try world.pull { $0.cache = new }.learned, 4)
            XCTAssertEqual(try readCacheTable(new).targets.array(), SyncWorld.grams)
        }
    }

    func testTheComparisonDecidesAndTheDecisionStands() throws {
        try SyncWorld.run { world in
            var asked: [[String?]] = []
            func pulled(_ comparison: AdapterComparison, again: Bool = false) throws -> PullOutcome {
                try world.pull {
                    $0.again = again
                    $0.trial = { current, offered in
                        asked.append([current?.digest, offered.digest])
                        return comparison
                    }
                }.outcome
            }
            let digests = try (1...3).map { try world.adapter($0).digest }
            try world.publish(1)
            XCTAssertEqual(try pulled(tooFew), .kept)
            XCTAssertEqual(try readInstalled(world.into)?.refused, 0)
            XCTAssertEqual(try pulled(better), .switched)
            for (number, comparison) in [(2, worse), (3, even)] {
                try world.publish(number)
                XCTAssertEqual(try pulled(comparison), .kept)
                XCTAssertEqual(try world.inUse(), digests[0])
            }
            XCTAssertEqual(try pulled(better), .refusedBefore)
            XCTAssertEqual(try pulled(better, again: true), .switched)
            XCTAssertEqual(
                asked,
                [
                    [nil, digests[0]], [nil, digests[0]], [digests[0], digests[1]], [digests[0], digests[2]],
                    [digests[0], digests[2]],
                ])
        }
    }

    func testTheDevicesOwnAdapterIsWhatAReleaseIsComparedWith() throws {
        try SyncWorld.run { world in
            let own = try world.adapter(77)
            try world.publish(1)
            XCTAssertEqual(try world.pull { ($0.own, $0.trial) = (own, { _, _ in worse }) }.outcome, .kept)
            XCTAssertEqual(try world.inUse(), own.digest)
            try world.publish(2)
            XCTAssertEqual(try world.pull { ($0.own, $0.trial) = (own, { _, _ in better }) }.outcome, .switched)
            XCTAssertEqual(try world.inUse(), try world.adapter(2).digest)
            var asked: [String?] = []
            let trial: Trial = { current, _ in
                asked.append(current?.digest)
                return better
            }
            // The release is in use, and the device has learned since: its own adapter is compared nevertheless.
            XCTAssertEqual(try world.pull { ($0.own, $0.trial) = (own, trial) }.outcome, .switched)
            XCTAssertEqual(asked, [own.digest])
            XCTAssertEqual(try world.pull { $0.trial = trial }.outcome, .newest)
            XCTAssertEqual(asked.count, 1)
            XCTAssertEqual(try rollBack(world.into).current?.number, 0)
            XCTAssertEqual(try world.inUse(), own.digest)
            try world.publish(77)  // the same as its own
            XCTAssertEqual(try world.pull { ($0.own, $0.trial) = (own, { _, _ in worse }) }.outcome, .newest)
        }
    }

    func testAReleaseWithoutAnAdapterKeepsTheOneInUse() throws {
        try SyncWorld.run { world in
            try world.publish(1)
            _ = try world.pull()
            try world.publish(2, withAdapter: false)
            XCTAssertEqual(try world.pull().outcome, .noAdapter)
            XCTAssertEqual(try world.inUse(), try world.adapter(1).digest)
        }
    }

    func testGoingBackRefusesTheRelease() throws {
        try SyncWorld.run { world in
            try world.publish(1)
            let releases = DeviceReleases(world.into)
            XCTAssertEqual(try faultOf { try releases.goBack(own: nil) }, "absent")
            _ = try world.pull()
            XCTAssertEqual(try releases.adapter()?.digest, try world.adapter(1).digest)
            try releases.goBack(own: nil)
            XCTAssertNil(try releases.adapter())
            XCTAssertEqual(try world.pull().outcome, .refusedBefore)
            XCTAssertEqual(try world.pull { $0.again = true }.outcome, .switched)
            // What was learned since is given up, and the release is used again.
            try releases.goBack(own: world.adapter(77))
            XCTAssertEqual(try releases.adapter()?.digest, try world.adapter(1).digest)
            XCTAssertEqual(try readInstalled(world.into)?.previous?.number, 0)
            try releases.forgetOwn()
            XCTAssertNil(try readInstalled(world.into)?.previous)
            XCTAssertEqual(namesIn(world.into).count, 3)  // the pointer, the adapter and the n-grams
            try world.publish(2)
            XCTAssertEqual(try world.pull().outcome, .switched)
            try releases.goBack(own: nil)
            XCTAssertEqual(try world.inUse(), try world.adapter(1).digest)
        }
    }

    func testAStoreThatBreaksOffChangesNothingInUse() throws {
        try SyncWorld.run { world in
            try world.publish(1)
            _ = try world.pull()
            try world.publish(2)
            let before = try everything(world.into)
            let folder = ReleaseFolder(URL(fileURLWithPath: world.folder))
            var reads = 0
            while true {
                let left = Guarded(reads)
                let breaking = GivenSource { path, most in
                    let isBroken = left.with { left in
                        left -= 1
                        return left < 0
                    }
                    if isBroken { throw FileError("the connection is gone") }
                    return try await folder.read(path, most: most)
                }
                guard let fault = try world.fault(breaking) else { break }
                XCTAssertEqual(fault, "unreachable")
                let files = try everything(world.into)
                for (name, data) in before where name != pointerName { XCTAssertEqual(files[name], data) }
                XCTAssertEqual(try world.inUse(), try world.adapter(1).digest)
                reads += 1
            }
            XCTAssertEqual(reads, 3)  // the release, the adapter, the n-grams
            XCTAssertEqual(try world.inUse(), try world.adapter(2).digest)
        }
    }

    func testAPullIsCancelled() throws {
        try SyncWorld.run { world in
            try world.publish(1)
            let waits = Store(
                GivenSource { _, _ in
                    try await Task.sleep(nanoseconds: 3_600_000_000_000)
                    return nil
                })
            DispatchQueue.global().async { waits.cancel() }
            XCTAssertThrowsError(try pull(waits, world.device())) { XCTAssert($0 is CancellationError, "\($0)") }
            XCTAssertEqual(try world.pull().outcome, .switched)
        }
    }

    func testOnePullAtATimeIntoADirectory() throws {
        try SyncWorld.run { world in
            try world.publish(1)
            var faults: [String?] = []
            let outcome = try world.pull {
                $0.trial = { _, _ in
                    faults.append(try world.fault())
                    return better
                }
            }.outcome
            XCTAssertEqual(faults, ["in_use"])
            XCTAssertEqual(outcome, .switched)
        }
    }

    func testADirectoryHoldsWhatItPointsToAndNothingElse() throws {
        try SyncWorld.run { world in
            for number in 1...4 {
                try world.publish(number)
                try makeDirectories(world.into)
                let hash = String(repeating: "0", count: 64)
                let end = ".0123456789abcdef.tmp"
                for name in [".\(hash).odc\(end)", ".current\(end)", "\(hash).safetensors"] {
                    try put(joined(world.into, name), [1])
                }
                XCTAssertEqual(try world.pull().outcome, .switched)
                let files = try XCTUnwrap(readInstalled(world.into)).files
                XCTAssertEqual(Set(namesIn(world.into)), files.union([pointerName]))
                XCTAssertEqual(files.count, min(number, 2) + 1)  // in use, the one before it, and n-grams
            }
            try put(joined(world.into, "a note of the user"), [1])
            _ = try world.pull()
            XCTAssert(exists(joined(world.into, "a note of the user")))
        }
    }

    func testACacheIsCutToTheMostUsed() throws {
        try SyncWorld.run { world in
            let few = try merge(world.table([5, 9], hits: 7), world.table([6, 7], hits: 2))
            XCTAssertEqual(bounded(few, most: 3).targets.array(), [5, 7, 9])
            XCTAssertEqual(bounded(few, most: 0).count, 0)
            XCTAssertEqual(bounded(few).count, 4)
        }
    }
}
