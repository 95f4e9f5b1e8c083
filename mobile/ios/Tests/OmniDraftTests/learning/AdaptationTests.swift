import XCTest

@testable import OmniDraft

/// Learning in idle time on a real bundle: from the answers of a session, in parts, and a bad adapter is taken back.
final class AdaptationTests: XCTestCase {
    func testASessionLearnsFromItsAnswersAndSaysTheSame() throws {
        try inSession { world in
            let said = try answers(world.session, 0..<10)
            let adapted = try world.learn()
            XCTAssertEqual(adapted.events, [.learned])
            XCTAssertEqual(adapted.steps, 8)  // four passes of two steps
            XCTAssertTrue(adapted.isFinished && adapted.usesLearned)
            let losses = adapted.losses
            XCTAssertLessThan(losses.suffix(2).reduce(0, +), losses.prefix(2).reduce(0, +), "\(losses)")
            XCTAssertNotNil(world.adapter)
            XCTAssertEqual(try answers(world.session, 0..<10), said)  // greedy text is the target's
            let second = try world.learn()
            XCTAssertEqual(second.events, [.learned])
            XCTAssertLessThan(try XCTUnwrap(second.losses.first), try XCTUnwrap(losses.first))
        }
    }

    func testShortBudgetsGiveTheAdapterOfALongOne() throws {
        try inSession { world in
            try answers(world.session, 0..<8)
            _ = try world.learn("straight")
            try world.session.useAdapter(nil, .drafter)
            var calls = 0
            while true {
                // A step has eight calls here; the work of an unfinished one is repeated.
                let part = try world.learn("parts", budget: CallBudget(21).budget)
                calls += 1
                if part.isFinished { break }
                XCTAssertEqual(part.events, [.unfinished])
                XCTAssertNil(world.adapter, "an unfinished adapter is not used")
            }
            XCTAssertGreaterThan(calls, 1)
            let digests = try ["straight", "parts"].map {
                try readAdapter("\(world.place)/\($0)/adapter.safetensors").digest
            }
            XCTAssertEqual(digests[0], digests[1])
        }
    }

    func testAnAdapterThatDraftsWorseIsTakenBack() throws {
        try inSession { world in
            let wild = StepOptions(learningRate: 2, weightDecay: 0)
            let said = try answers(world.session, 0..<8)
            XCTAssertEqual(try world.learn(step: wild).events, [.learned])
            let bad = try XCTUnwrap(world.adapter)
            XCTAssertEqual(try answers(world.session, 0..<8), said)  // a bad adapter changes speed only
            XCTAssertEqual(try world.learn(step: wild).events, [.rolledBack])
            XCTAssertNil(world.adapter)
            try answers(world.session, 8..<16)
            XCTAssertEqual(try world.learn(step: wild).events, [.rested])
            try answers(world.session, 16..<24)
            XCTAssertEqual(try world.learn(step: wild).events, [.learned])
            XCTAssertNotEqual(world.adapter?.digest, bad.digest)
        }
    }

    func testAnAnswerThatIsWrittenNowIsLeftOut() throws {
        try inSession { world in
            try answers(world.session, 0..<7)
            let running = try world.session.generate(question(7), shortAnswer)
            _ = try running.next()
            XCTAssertEqual(try world.learn().events, [])
            _ = try running.finish()
            XCTAssertEqual(try world.learn().events, [.learned])
        }
    }

    func testWhatWasLearnedWithOtherSettingsIsRefused() throws {
        try inSession { world in
            try answers(world.session, 0..<1)
            _ = try world.learn()
            for (options, named) in [(AdaptOptions(seed: 1), "seed"), (AdaptOptions(passes: 3), "passes")] {
                let message = settingRefusal { _ = try world.learn(options: options) }
                XCTAssert(message.contains(named), message)
            }
            XCTAssertThrowsError(try world.learn(step: StepOptions(learningRate: 1)))
            XCTAssertThrowsError(try world.learn(options: AdaptOptions(interval: 0)))
        }
    }

    func testTwoLearnersInOneDirectoryAreRefused() throws {
        try inSession { world in
            let directory = LearnedDirectory("\(world.place)/learned")
            try directory.claimed {
                let message = settingRefusal { _ = try world.learn() }
                XCTAssert(message.contains("in use"), message)
            }
            XCTAssertEqual(try world.learn().events, [])
        }
    }

    private func inSession(_ body: (RecordedSession) throws -> Void) throws {
        let loaded = try StarterBundles.load("learning")
        try inDirectory { place in
            let store = try TraceStore("\(place)/traces", Vocabularies(loaded.vocabMap))
            defer { store.close() }
            try body(RecordedSession(place: place, session: SessionCore(loaded, trace: store)))
        }
    }
}

private struct RecordedSession {
    let place: String
    let session: SessionCore

    var adapter: Adapter? { session.models.adapters[.drafter] }

    func learn(
        _ name: String = "learned", step: StepOptions = onlineOptions(), options: AdaptOptions = AdaptOptions(),
        budget: StepBudget = .unbounded
    ) throws -> Adapted {
        let adaptation = Adaptation(
            engine: session.loaded.engine, bundle: session.bundle, map: session.vocabMap,
            directory: LearnedDirectory("\(place)/\(name)"),
            traces: "\(place)/traces", options: options, step: step, now: { "2026-01-02T03:04:05Z" })
        return try adaptation.step(SessionUser(session), begun: nil, budget)
    }
}
