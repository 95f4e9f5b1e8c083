import Foundation
import XCTest

@testable import OmniDraft

// The cost of a round outside the models: translate, verify, learn and rewind, at real vocabulary sizes.
//
// The counterpart of benchmarks/host_overhead.py: the same rows, the same vocabulary map, the same seed, so the same
// tokens. It prints medians of the milliseconds of a round. The column `host CPU` is CPU time of the thread, which other
// processes lengthen less. docs/benchmarks.md has the command. A debug build runs fewer rounds.

private let drafted = 5
private let poolRows = 16
private let warmUp = 600
private let measured = 400
private let mostSeconds = 8.0  // of the rounds of a line, from those that are measured on at least ten

/// A model of random logits that costs nothing; it favours a share of the tokens that it verifies.
private final class RandomRows: CausalModel {
    let vocabSize: Int
    let maxLength = 1 << 30
    private(set) var length = 0
    private let pool: Row
    private let likes: [Bool]
    private var raised: [(at: Int, value: Float)] = []
    private var calls = 0

    init(_ vocabSize: Int, agreement: Double, spread: Double) {
        self.vocabSize = vocabSize
        pool = Row(poolRows * vocabSize)
        let source = SplitMix64(0)
        for index in 0..<poolRows * vocabSize {
            let radius = sqrt(-2 * log1p(-source.uniform()))
            pool.numbers[index] = Float(radius * cos(2 * Double.pi * source.uniform()) * spread)
        }
        let liked = SplitMix64(1)
        likes = (0..<1 << 16).map { _ in liked.uniform() < agreement }
    }

    func score(_ tokens: [Int32], numLogits: Int?) throws -> Logits {
        for each in raised { pool.numbers[each.at] = each.value }
        raised.removeAll(keepingCapacity: true)
        calls += 1
        let start = tokens.count < poolRows ? calls % (poolRows - tokens.count) : 0
        let rows = numLogits ?? tokens.count
        for index in 0..<min(rows, tokens.count - 1) where likes[(calls * 8 + index) % likes.count] {
            let at = (start + index) * vocabSize + Int(tokens[index + 1])
            raised.append((at: at, value: pool.numbers[at]))
            pool.numbers[at] = 30
        }
        length += tokens.count
        return Logits(owner: pool, values: pool.numbers + start * vocabSize, rows: rows, width: vocabSize)
    }

    func rewind(_ length: Int) { self.length = length }
}

/// Nanoseconds of the parts of a round.
private final class Parts {
    var draft = 0
    var translate = 0
    var verify = 0
    var learn = 0
    var cpu = 0  // of all but the draft

    func clear() { (draft, translate, verify, learn, cpu) = (0, 0, 0, 0, 0) }
}

private func now(_ clock: clockid_t) -> Int {
    var time = timespec()
    clock_gettime(clock, &time)
    return time.tv_sec * 1_000_000_000 + time.tv_nsec
}

private final class Timed: Proposer {
    private let proposer: TrieProposer
    private let parts: Parts

    init(_ proposer: TrieProposer, _ parts: Parts) {
        self.proposer = proposer
        self.parts = parts
    }

    func find(_ tokens: [Int32]) -> Copy { proposer.find(tokens) }

    func propose(_ plan: Plan, copy: Copy, context: [Int32], random: any RandomSource) throws -> Draft {
        let started = now(CLOCK_MONOTONIC)
        defer { parts.draft += now(CLOCK_MONOTONIC) - started }
        return try proposer.propose(plan, copy: copy, context: context, random: random)
    }

    func translate(_ draft: Draft, room: Int) -> Proposal {
        timed(\.translate) { proposer.translate(draft, room: room) }
    }

    func verify(
        _ draft: Draft, as proposal: Proposal, against probs: any Probs, random: any RandomSource
    ) throws -> Verdict {
        try timed(\.verify) { try proposer.verify(draft, as: proposal, against: probs, random: random) }
    }

    func learn(_ outcome: Outcome, _ context: inout [Int32]) -> Int {
        timed(\.learn) { proposer.learn(outcome, &context) }
    }

    private func timed<T>(_ part: ReferenceWritableKeyPath<Parts, Int>, _ work: () throws -> T) rethrows -> T {
        let cpu = now(CLOCK_THREAD_CPUTIME_ID)
        let started = now(CLOCK_MONOTONIC)
        defer {
            parts[keyPath: part] += now(CLOCK_MONOTONIC) - started
            parts.cpu += now(CLOCK_THREAD_CPUTIME_ID) - cpu
        }
        return try work()
    }
}

/// Prints the medians where OMNIDRAFT_HOST_WORK names the vocabulary map that
/// `python -m benchmarks.host_overhead --map` wrote.
final class HostWorkBenchmark: XCTestCase {
    private let columns = ["translate", "verify", "learn", "host", "draft", "host CPU", "p10", "p90", "emitted"]

    func testMedians() throws {
        guard let file = ProcessInfo.processInfo.environment["OMNIDRAFT_HOST_WORK"] else {
            throw XCTSkip("OMNIDRAFT_HOST_WORK is not set")
        }
        let map = try loadVocabMap(file)
        print("milliseconds a round (medians), \(drafted) draft tokens, target vocabulary \(map.targetSize)")
        print(line("", columns))
        for (rows, agreement) in [("random", 0.0), ("agreeing", 0.7)] {
            for temperature in [0.0, 1.0] {
                for isPrefilled in [false, true] {
                    let name = "\(rows) rows, T = \(temperature), \(isPrefilled ? "full" : "cold") cache"
                    let medians = try medians(map, agreement, temperature, isPrefilled)
                    XCTAssertEqual(medians.count, columns.count)
                    print(line(name, medians.map { String(format: "%.3f", $0) }))
                }
            }
        }
    }

    private func line(_ name: String, _ cells: [String]) -> String {
        func padded(_ text: String, _ width: Int) -> String { String(repeating: " ", count: width - text.count) + text }
        return name + String(repeating: " ", count: 40 - name.count) + cells.map { padded($0, 11) }.joined()
    }

    /// Medians of a round: milliseconds of its parts and of all of them, tokens emitted.
    private func medians(
        _ map: VocabMap, _ agreement: Double, _ temperature: Double, _ isPrefilled: Bool
    ) throws -> [Double] {
        let cache = try NgramCache(map)
        if isPrefilled { _ = cache.prefill() }
        let drafter = Drafter(RandomRows(map.draftSize, agreement: 0, spread: 5))
        let target = RandomRows(map.targetSize, agreement: agreement, spread: 2)
        let parts = Parts()
        let proposer =
            temperature == 0 ? MatchProposer(drafter, cache) : TrieProposer(drafter, cache, temperature: temperature)
        let text = DecoderState()
        text.restart([1], [1], remaining: 1 << 30, cut: cutAtEos([]))
        let loop = Speculation(
            target: target, proposer: Timed(proposer, parts), text: text,
            sampling: try SamplingConfig(temperature: temperature),
            draftLength: try FixedLength(drafted), random: SplitMix64(0))
        var rounds: [[Int]] = []
        let started = now(CLOCK_MONOTONIC)
        for number in 0..<warmUp + measured {
            let isLate = Double(now(CLOCK_MONOTONIC) - started) > mostSeconds * 1e9
            if isLate && rounds.count >= 10 { break }
            parts.clear()
            guard let round = try loop.next() else { break }
            if number < warmUp && !isLate { continue }
            let host = parts.translate + parts.verify + parts.learn
            rounds.append(
                [parts.translate, parts.verify, parts.learn, host, parts.draft, parts.cpu, round.emitted.count])
        }
        func share(_ column: Int, _ part: Int) -> Double {
            Double(rounds.map { $0[column] }.sorted()[rounds.count * part / 10]) / 1e6
        }
        let emitted = Double(rounds.reduce(0) { $0 + $1[6] }) / Double(rounds.count)
        return (0..<6).map { share($0, 5) } + [share(3, 1), share(3, 9), emitted]
    }
}
