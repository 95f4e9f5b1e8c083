import XCTest

@testable import OmniDraft

/// Pulls: a better release is taken once, and gone back from; `sync/pull` of the vectors has the refusals.
final class PullTests: XCTestCase {
    private func comparison(_ low: Double, _ high: Double, generations: Int = 20) -> AdapterComparison {
        AdapterComparison(
            generations: generations, positions: 900, current: 0.3, offered: 0.3 + (low + high) / 2, low: low,
            high: high)
    }

    func testAReleaseIsTakenOnceAndMerged() throws {
        try SyncWorld.run { world in
            try world.publish(3)
            let cache = joined(world.place, "mine.odc")
            try writeCacheTable(cache, world.table([SyncWorld.grams[0]], hits: 5, accepted: 5))
            let first = try world.pull({ $0 }) { $0.cache = cache }
            XCTAssertEqual(first.outcome, .switched)
            XCTAssertEqual(first.learned, SyncWorld.grams.count - 1)
            XCTAssertEqual(try world.inUse(), try world.adapter(3).digest)
            let (before, learned) = (try treeOf(world.into), try readFile(cache, most: 1 << 20))
            let again = try world.pull({ $0 }) { $0.cache = cache }
            XCTAssertEqual(again.outcome, .newest)
            XCTAssertEqual(again.learned, 0)
            XCTAssertEqual(try treeOf(world.into), before)
            XCTAssertEqual(try readFile(cache, most: 1 << 20), learned)
            XCTAssertEqual(Set(before.keys), try XCTUnwrap(readInstalled(world.into)).files.union([pointerName]))
        }
    }

    func testTheComparisonDecides() throws {
        try SyncWorld.run { world in
            let (better, even) = (comparison(0.1, 0.2), comparison(-0.1, 0.2))
            let few = comparison(-.infinity, .infinity, generations: 3)
            try world.publish(1)
            XCTAssertEqual(try world.pull({ $0 }) { $0.trial = { _, _ in few } }.outcome, .kept)
            XCTAssertEqual(try world.pull({ $0 }) { $0.trial = { _, _ in better } }.outcome, .switched)
            try world.publish(2)
            XCTAssertEqual(try world.pull({ $0 }) { $0.trial = { _, _ in even } }.outcome, .kept)
            XCTAssertEqual(try world.inUse(), try world.adapter(1).digest)
            XCTAssertEqual(try world.pull({ $0 }) { $0.trial = { _, _ in better } }.outcome, .refusedBefore)
            let own = try world.adapter(77)
            try world.publish(3)
            let kept = try world.pull({ $0 }) {
                $0.own = own
                $0.trial = { current, _ in
                    XCTAssertEqual(current?.digest, own.digest)
                    return even
                }
            }
            XCTAssertEqual(kept.outcome, .kept)
            XCTAssertEqual(try world.inUse(), own.digest)
        }
    }

    func testGoingBack() throws {
        try SyncWorld.run { world in
            try world.publish(1)
            XCTAssertEqual(try faultOf { _ = try rollBack(world.into) }, "absent")
            _ = try world.pull()
            try world.publish(2)
            _ = try world.pull()
            XCTAssertEqual(try rollBack(world.into).current?.number, 1)
            XCTAssertEqual(try world.inUse(), try world.adapter(1).digest)
            XCTAssertEqual(try world.pull().outcome, .refusedBefore)
            try world.publish(3, withAdapter: false)
            XCTAssertEqual(try world.pull().outcome, .noAdapter)
            let file = joined(world.into, try XCTUnwrap(readInstalled(world.into)?.current).file.sha256 + adapterEnd)
            try put(file, [1])
            XCTAssertEqual(try faultOf { _ = try world.inUse() }, "checksum")
        }
    }
}
