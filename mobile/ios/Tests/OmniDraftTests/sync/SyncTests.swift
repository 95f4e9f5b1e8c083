import Foundation
import XCTest

@testable import OmniDraft

/// Releases that Python published: pulled, verified, compared, used, and gone back from.
final class SyncTests: XCTestCase {
    private static let loaded = Result { try StarterBundles.load("learning") }

    private func expected(_ name: String) throws -> String {
        try StarterBundles.directory("expected/learning") + "/\(name)"
    }
    private func key() throws -> [UInt8] { try readFile(expected("key"), most: 1 << 10) }
    private func released() throws -> String { try readAdapter(expected("released.safetensors")).digest }
    private func store() throws -> [UInt8] {
        let name = try channelOf(Self.loaded.get().adapterPlace).id
        return try readFile(expected("store") + "/\(name)/release", most: Defaults.syncMaxBytes)
    }

    /// Runs `body` in a new place with a session that learns, where signatures can be checked, if that is `lent`.
    private func withDevice(
        signed: Bool = true, adapter: String? = nil, lent: Bool = true,
        _ body: (String, SessionCore, LearningController) async throws -> Void
    ) async throws {
        try await awaitInDirectory { place in
            let session = try SessionCore(Self.loaded.get(), adapter: adapter)
            let learning = LearningController(session, options(place), publicKey: signed ? try key() : nil)
            if lent {
                try await withEd25519 { try await body(place, session, learning) }
            } else {
                try await body(place, session, learning)
            }
            await learning.off()
        }
    }

    private func options(_ place: String) -> SessionOptions {
        let url: (String) -> URL = { URL(fileURLWithPath: "\(place)/\($0)") }
        return SessionOptions(cache: url("cache.odc"), traces: url("traces"), learned: url("learned"))
    }

    private func inUse(_ session: SessionCore) -> String? { session.models.adapters[.drafter]?.digest }

    private func fault(_ body: () async throws -> Void) async throws -> String? {
        do {
            try await body()
            return nil
        } catch let error as OmniDraftError {
            return error.fault
        }
    }

    func testAReleaseIsUsedAndGoneBackFrom() async throws {
        try await withDevice { place, session, learning in
            let before = try answers(session, 0..<3)
            let first = try await learning.pull(store())
            XCTAssertEqual(first, .switched)
            XCTAssertEqual(inUse(session), try released())
            XCTAssertGreaterThan(session.cache.count, 0)  // the n-grams of the release
            XCTAssert(exists("\(place)/cache.odc"))
            XCTAssertEqual(try answers(session, 0..<3), before)
            let second = try await learning.pull(store())
            XCTAssertEqual(second, .newest)
            try await learning.goBack()
            XCTAssertNil(inUse(session))
            let third = try await learning.pull(store())
            XCTAssertEqual(third, .refusedBefore)
            XCTAssertNil(inUse(session))
            let fault = try await fault { try await learning.goBack() }
            XCTAssertEqual(fault, "absent")
        }
    }

    func testAReleaseIsComparedOnWhatWasRecorded() async throws {
        try await withDevice { place, session, learning in
            try FileManager.default.copyItem(atPath: expected("traces"), toPath: "\(place)/traces")
            let outcome = try await learning.pull(store())
            XCTAssertEqual(outcome, .switched)
            XCTAssertEqual(inUse(session), try released())
        }
    }

    func testAReleaseThatIsNotBetterIsNotUsed() async throws {
        let adapter = try expected("released.safetensors")
        try await withDevice(adapter: adapter) { place, session, learning in
            try FileManager.default.copyItem(atPath: expected("traces"), toPath: "\(place)/traces")
            try await learning.on()
            try answers(session, 0..<8)
            for _ in 0..<2 { _ = try await learning.step(seconds: 600) }
            let own = inUse(session)
            XCTAssertNotNil(own)
            XCTAssertNotEqual(own, try released())
            let outcome = try await learning.pull(store())
            XCTAssert([.kept, .switched].contains(outcome))
            XCTAssertEqual(inUse(session), outcome == .kept ? own : try released())
            try await learning.goBack()
            XCTAssertFalse(inUse(session) == own && outcome == .kept)
        }
    }

    func testWithoutAKeyNoReleaseIsTaken() async throws {
        try await withDevice(signed: false) { _, session, learning in
            let fault = try await fault { _ = try await learning.pull(store()) }
            XCTAssertEqual(fault, "")
            XCTAssertNil(inUse(session))
        }
    }

    /// Without a library that a test lends, a system without Ed25519 takes nothing that it would have to check.
    func testASystemWithoutEd25519RefusesASignedRelease() async throws {
        if canCheckSignatures { throw XCTSkip("this system has Ed25519") }
        try await withDevice(lent: false) { _, session, learning in
            let fault = try await fault { _ = try await learning.pull(store()) }
            XCTAssertEqual(fault, "unverifiable")
            XCTAssertNil(inUse(session))
        }
    }

    func testAPushHoldsWhatWasChosen() async throws {
        try await withDevice { _, session, learning in
            try await learning.on()
            try answers(session, 0..<8)
            _ = try await learning.step(seconds: 600)
            let file = try await learning.push([.adapter, .cache])
            let push = try readSigned(file.data, .push, publicKey: nil)
            let channel = try channelOf(session.loaded.adapterPlace)
            XCTAssertEqual(file.name, "\(channel.id)/\(push.record.key).push")
            XCTAssertEqual(try learning.releaseName(), "\(channel.id)/release")
            XCTAssert(push.traces.isEmpty && push.cache != nil && push.record.accepted > 0)
            XCTAssertEqual(inUse(session), try decodeAdapter(Bytes(XCTUnwrap(push.adapter))).digest)
            let all = try await learning.push(Set(PushPart.allCases))
            XCTAssertEqual(all.name, file.name)
            XCTAssertEqual(try readSigned(all.data, .push, publicKey: nil).traces.count, 1)
        }
    }
}
