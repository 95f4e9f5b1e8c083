import Foundation
import Observation
import OmniDraft

private let mostRounds = 60  // of the acceptance that is shown

/// The logic of the screen, without SwiftUI: the state of a conversation, and the calls of the library.
///
/// Calls of the library run one after another. The app holds the model, so what it shows and what runs outlive the
/// views of a rotation.
@Observable @MainActor
final class ScreenModel {
    private(set) var phase = Phase.empty
    /// The name of the bundle.
    private(set) var title = ""
    /// Of the unpacking, 0 to 1; nil if unknown.
    private(set) var progress: Double?
    /// The conversation, in order.
    private(set) var turns: [Turn] = []
    /// Of the last answer, or of the one that runs, with and without drafts.
    private(set) var tokensPerSecond: [Speed: Double] = [:]
    /// Share of the accepted draft tokens of each of the last rounds, 0 to 1.
    private(set) var acceptance: [Double] = []
    private(set) var isLearning = false
    private(set) var hasDrafter = true
    /// The throttle level, 0 to 3.
    private(set) var heat = 0
    /// The line of the last benchmark; nil before one.
    private(set) var benchmark: String?
    /// One sentence for the user: an error or what the library says; empty if there is none.
    private(set) var notice = ""
    /// The message that the user is writing.
    var message = ""

    @ObservationIgnored private let engine: any Engine
    @ObservationIgnored private let now: () -> Double
    @ObservationIgnored private var talk: (any Talk)?
    @ObservationIgnored private var openings = 0
    @ObservationIgnored private var work: Task<Void, Never>?
    @ObservationIgnored private var isCancelled = false  // the answer that runs, or waits to run
    @ObservationIgnored private var study: Task<LearnOutcome?, Never>?

    /// - Parameters:
    ///   - engine: the library.
    ///   - now: seconds of a clock that only goes forward, and stops in sleep as an answer does.
    init(_ engine: any Engine, now: @escaping () -> Double = suspendingSeconds()) {
        self.engine = engine
        self.now = now
    }

    /// The bundles that the app brings along.
    var inApp: [Choice] { engine.inApp }
    /// The learning switch: answers are recorded and learned from.
    var wantsLearning: Bool {
        get { isLearning }
        set { learn(newValue) }
    }
    /// Whether a message can be sent now.
    var canSend: Bool { phase == .ready && !isBlank(message) }

    /// Opens a bundle in place of the one before; an answer that runs is cancelled.
    func open(_ choice: Choice) {
        stop()
        talk = nil
        openings += 1
        phase = .opening
        (title, notice, progress) = (choice.name, "", nil)
        (turns, tokensPerSecond, acceptance) = ([], [:], [])
        (isLearning, hasDrafter, benchmark) = (false, true, nil)
        let opening = openings
        later { [self] in
            let opened = try await engine.open(choice) { done, all in
                Task { @MainActor in self.progressed(opening, done, all) }
            }
            if opening == openings { ready(opened) }
        }
    }

    /// Opens an archive on a web server, from what the user typed.
    func download(_ address: String, bytes: String, sha256: String) {
        if let choice = Choice.download(address, bytes: bytes, sha256: sha256) {
            open(choice)
        } else {
            notice = "\(address) is not an address"
        }
    }

    /// Answers the message that was written, with or without drafts.
    func send(_ speed: Speed) {
        guard let talk, canSend else { return }
        let (asked, opening) = (message, openings)
        turns.append(Turn(id: turns.count, message: asked))
        (phase, notice, message, isCancelled) = (.answering, "", "", false)
        var meters = (speed: Speedometer(), acceptance: AcceptanceMeter(talk.stats))
        later { [self] in
            for try await piece in talk.answer(asked, speed) {
                // It may have been cancelled before it began.
                if isCancelled || opening != openings { talk.cancel() }
                guard opening == openings else { continue }
                tokensPerSecond[speed] =
                    meters.speed.take(tokens: piece.tokenIds.count, at: now()) ?? tokensPerSecond[speed]
                take(piece, meters.acceptance.take(talk.stats))
            }
            try await talk.save()  // after each answer: the system may end the app at any time
            guard opening == openings else { return }
            phase = .ready
            notice = talk.stopReason == .cancelled ? "the answer was cancelled; its text stays" : ""
        }
    }

    /// Writes a text without drafts and with them, and shows the figures as one line.
    func measure() {
        guard phase == .ready else { return }
        (phase, notice) = (.answering, "")
        withTalk { model, talk in
            let line = try await talk.benchmark(heat: model.heat).line()
            return { (model.phase, model.benchmark) = (.ready, line) }
        }
    }

    /// Ends the answer; what is there stays.
    func cancel() {
        isCancelled = true
        talk?.cancel()
    }

    /// Records answers and learns from them, or stops and keeps what was learned.
    func learn(_ isOn: Bool) {
        withTalk { model, talk in
            try await talk.learn(isOn)
            return { model.isLearning = isOn }
        }
    }

    /// Deletes all that was recorded and learned.
    func wipe() {
        withTalk { model, talk in
            try await talk.wipe()
            return {
                model.isLearning = false
                model.notice = "all that was recorded and learned is deleted"
            }
        }
    }

    /// The user asks for the drafter again.
    func loadDrafter() {
        withTalk { model, talk in
            try await talk.loadDrafter()
            return { (model.hasDrafter, model.notice) = (true, "") }
        }
    }

    /// Learns from the recorded answers for some seconds; for idle time.
    func learnNow(seconds: Double) {
        guard let talk, isLearning else { return }
        study = step(talk, seconds)
    }

    /// Learns in idle time, also where no view is there: the bundle that learns is opened, where none is open.
    /// Cancelling the task ends it within one call of the step graph.
    ///
    /// - Returns: whether all that was recorded is learned.
    func learnInIdleTime(seconds: Double) async -> Bool {
        if phase == .empty, let learner = engine.learner { open(learner) }
        await settled()
        guard let talk, isLearning, !Task.isCancelled else { return false }
        let running = step(talk, seconds)
        let outcome = await withTaskCancellationHandler {
            await running.value
        } onCancel: {
            running.cancel()
        }
        return outcome?.isFinished ?? false
    }

    /// The thermal state of the system: 0 nominal, 1 fair, 2 serious, 3 critical. It is the throttle level, too.
    func thermal(_ state: Int) {
        heat = min(max(state, 0), 3)
        talk?.throttle(heat)
    }

    /// The system is short of memory: the target goes on alone, with the same text.
    func lowMemory() {
        guard let talk, hasDrafter else { return }
        talk.dropDrafter()
        (hasDrafter, notice) = (false, "the drafter was dropped, since memory is low")
    }

    /// The app leaves the foreground: a pass that runs ends, and the conversation is saved. No text is lost.
    func leave() async {
        stop()
        await settled()
    }

    /// Waits until all that was asked for is done.
    func settled() async {
        while let running = work {
            await running.value
            if running == work { return }
        }
    }

    /// A sentence for the user.
    func say(_ sentence: String) { notice = sentence }

    private func stop() {
        cancel()
        study?.cancel()
    }

    /// Calls the library behind what was asked for before; an error is a sentence for the user.
    @discardableResult
    private func later<T: Sendable>(_ call: @escaping @MainActor () async throws -> T) -> Task<T?, Never> {
        let (before, opening) = (work, openings)
        let task = Task { () -> T? in
            await before?.value
            do {
                return try await call()
            } catch {
                if opening == openings { refused(error) }
                return nil
            }
        }
        work = Task { _ = await task.value }
        return task
    }

    /// Calls the library on the open bundle; then changes the state, unless another bundle was opened meanwhile.
    private func withTalk(
        _ call: @escaping @MainActor (ScreenModel, any Talk) async throws -> @MainActor () -> Void
    ) {
        guard let talk else { return }
        let opening = openings
        later { [self] in
            let change = try await call(self, talk)
            if opening == openings { change() }
        }
    }

    private func step(_ talk: any Talk, _ seconds: Double) -> Task<LearnOutcome?, Never> {
        let opening = openings
        return later { [self] in
            let outcome = try await talk.step(seconds: seconds)
            let use = outcome.uses ? "a learned adapter is in use" : "no learned adapter is in use"
            if opening == openings { notice = "\(outcome.steps) steps of learning; \(use)" }
            return outcome
        }
    }

    private func refused(_ error: any Error) {
        phase = talk == nil ? .empty : .ready
        progress = nil
        switch error {
        case is CancellationError: break  // what was cancelled said so, or the system asked for it
        case let error as OmniDraftError: notice = error.description
        default: notice = error.localizedDescription
        }
    }

    private func progressed(_ opening: Int, _ done: Int, _ all: Int) {
        guard opening == openings, phase == .opening, all > 0 else { return }
        progress = max(progress ?? 0, min(Double(done) / Double(all), 1))
    }

    private func ready(_ opened: any Talk) {
        talk = opened
        opened.throttle(heat)
        (phase, progress, notice, isLearning) = (.ready, nil, opened.notice ?? "", opened.learns)
    }

    private func take(_ piece: Piece, _ share: Double?) {
        if let share { acceptance = Array((acceptance + [share]).suffix(mostRounds)) }
        guard !piece.text.isEmpty, let last = turns.indices.last else { return }
        let drafted = piece.tokenIds.isEmpty ? 0 : Double(piece.drafted) / Double(piece.tokenIds.count)
        turns[last].spans.append(Span(text: piece.text, drafted: drafted))
    }
}

private func isBlank(_ text: String) -> Bool {
    text.trimmingCharacters(in: .whitespacesAndNewlines).isEmpty
}

/// Seconds of a clock that stops in sleep.
func suspendingSeconds() -> () -> Double {
    let clock = SuspendingClock()
    let began = clock.now
    return {
        let passed = began.duration(to: clock.now).components
        return Double(passed.seconds) + Double(passed.attoseconds) * 1e-18
    }
}
