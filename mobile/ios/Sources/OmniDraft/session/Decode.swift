import Foundation

// The loop as a session runs it: with a mode by name and a trace.

/// Seconds of a clock that only goes forward, and stops while the device sleeps.
func seconds() -> Double {
    var now = timespec()
    #if canImport(Darwin)
        clock_gettime(CLOCK_UPTIME_RAW, &now)
    #else
        clock_gettime(CLOCK_MONOTONIC, &now)
    #endif
    return Double(now.tv_sec) + Double(now.tv_nsec) * 1e-9
}

struct DecoderModels {
    let target: any CausalModel
    let drafter: Drafter
    let cache: NgramCache
    var clock: Clock = seconds
}

/// The rounds of a generation, and their record.
final class Decode {
    private let rounds: Speculation
    private var recorder: Recorder?
    private var hasEnded = false

    /// - Parameters:
    ///   - config: mode, verification ("auto" is token), sampling and log-probabilities are read; `text` and
    ///     `draftLength` hold the rest.
    ///   - recorder: of a trace.
    init(
        _ models: DecoderModels, text: DecoderState, config: GenerationConfig, draftLength: any DraftLength,
        random: any RandomSource, recorder: Recorder? = nil
    ) throws {
        var proposer = proposerFor(config, models.drafter, models.cache)
        var draftLength = draftLength
        if let constraint = text.constraint {
            let constrained = InGrammar(proposer, draftLength, constraint)
            (proposer, draftLength) = (constrained, constrained)
        }
        self.recorder = recorder
        rounds = Speculation(
            target: models.target, proposer: proposer, text: text, sampling: try config.sampling(),
            draftLength: draftLength, random: random, clock: models.clock,
            logprobs: config.logprobs
        ) { outcome, probs in recorder?.record(outcome, probs) }
    }

    /// The next round; nil at the end of the text. An error ends the rounds, and so the record.
    func next() throws -> Round? {
        if hasEnded { return nil }
        do {
            let round = try rounds.next()
            if round == nil { close() }
            return round
        } catch {
            close()
            throw error
        }
    }

    /// Ends the rounds and the record; a second call does nothing.
    func close() {
        hasEnded = true
        recorder?.close()
        recorder = nil
    }
}

/// The proposer of a mode: what `baselines` makes in the reference runtime, without the modes for comparisons.
///
/// At temperature 0 a proposal is accepted while it is the argmax, so drafts are verified by equality.
func proposerFor(_ config: GenerationConfig, _ drafter: Drafter, _ cache: NgramCache) -> any Proposer {
    switch config.mode {
    case .lookup: return PromptLookup()
    case .plain: return PlainProposer()
    case .trie: break
    }
    let drafting: TrieProposer
    if config.temperature == 0 {
        drafting = MatchProposer(drafter, cache)
    } else {
        var verifier: Verifier = verifyTokens
        if config.verification == .block { verifier = verifyBlock }
        drafting = TrieProposer(drafter, cache, temperature: config.temperature, verifier: verifier)
    }
    return config.copies ? CopyingProposer(drafting) : drafting
}
