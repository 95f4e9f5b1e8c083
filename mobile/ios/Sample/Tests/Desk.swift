import Foundation
import Observation
import OmniDraft
import XCTest

@testable import OmniDraftSample

/// A screen with the real library and a starter bundle.
@MainActor
final class Desk {
    /// What a view was told.
    struct Told: Equatable {
        let phase: Phase
        let progress: Double?
        let turns: [Turn]
        let notice: String

        @MainActor
        init(_ model: ScreenModel) {
            (phase, progress, turns, notice) = (model.phase, model.progress, model.turns, model.notice)
        }
    }

    /// The app's storage, which all desks share, so that a bundle is checked once.
    nonisolated static let root = FileManager.default.temporaryDirectory
        .appendingPathComponent("omnidraft-sample-\(UUID().uuidString)", isDirectory: true)

    let model: ScreenModel
    /// All that a view was told, in order.
    private(set) var told: [Told] = []
    private var isWatching = false

    /// - Parameters:
    ///   - tokens: of an answer, at most.
    ///   - inApp: the bundles that the app brings along.
    ///   - provider: where the models run.
    init(tokens: Int = 24, inApp: [Choice] = [], provider: ExecutionProvider = .cpu) {
        // A fixed draft length: what pays depends on how fast this machine is now.
        let config = GenerationConfig(maxNewTokens: tokens, numDraftTokens: 4)
        model = ScreenModel(LibraryEngine(root: Desk.root, inApp: inApp, config: config, provider: provider))
    }

    /// Opens the starter bundle that can learn.
    ///
    /// - Parameter name: of its files in the app's storage; a new one without it.
    func open(_ name: String = UUID().uuidString) async throws -> Desk {
        model.open(Choice(name: name, place: .directory(try Starter.place("unpacked"))))
        try await until { $0.phase != .opening }
        XCTAssertEqual(model.phase, .ready, model.notice)
        return self
    }

    /// The text of a whole answer.
    func answer(_ message: String, _ speed: Speed = .speculative) async throws -> String {
        send(message, speed)
        try await until { $0.phase == .ready }
        return model.turns.last?.answer ?? ""
    }

    /// Begins an answer.
    func send(_ message: String, _ speed: Speed = .speculative) {
        model.message = message
        model.send(speed)
    }

    /// Lets the main actor work until the screen is so.
    func until(_ isWanted: (ScreenModel) -> Bool) async throws {
        for _ in 0..<60_000 {
            if isWanted(model) { return }
            try await Task.sleep(nanoseconds: 1_000_000)
        }
        XCTFail("nothing more happens: \(model.phase) \(model.notice)")
        throw CancellationError()
    }

    /// Looks at the model as a view does: once after each change.
    func watch() {
        isWatching = true
        look()
    }

    /// The view is gone.
    func unwatch() { isWatching = false }

    private func look() {
        guard isWatching else { return }
        let now = withObservationTracking {
            Told(model)
        } onChange: {
            Task { @MainActor in self.look() }
        }
        if now != told.last { told.append(now) }
    }
}

/// The starter bundles: the environment variable OMNIDRAFT_BUNDLES.
enum Starter {
    /// A bundle or an archive; a test that asks for one is left out where there is none.
    static func place(_ name: String) throws -> URL {
        guard let folder = ProcessInfo.processInfo.environment["OMNIDRAFT_BUNDLES"] else {
            throw XCTSkip("OMNIDRAFT_BUNDLES is not set")
        }
        let url = URL(fileURLWithPath: folder).appendingPathComponent(name)
        guard FileManager.default.fileExists(atPath: url.path) else { throw XCTSkip("there is no \(url.path)") }
        return url
    }
}
