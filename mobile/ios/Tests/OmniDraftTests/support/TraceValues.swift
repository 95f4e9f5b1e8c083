@testable import OmniDraft

// Traces for tests: random ones, as tests/support/trace_files.py makes for the Python runtime, and those of vectors.

/// The pair of a language of 8 draft ids and 10 target ids.
let smallPair = Vocabularies(
    draftFingerprint: String(repeating: "d", count: 64), targetFingerprint: String(repeating: "e", count: 64),
    draftSize: 8, targetSize: 10)

extension SplitMix64: RandomNumberGenerator {
    public func next() -> UInt64 { nextU64() }
}

struct TraceValues {
    private var random: SplitMix64
    private let pair: Vocabularies

    init(_ seed: UInt64, _ pair: Vocabularies = smallPair) {
        random = SplitMix64(seed)
        self.pair = pair
    }

    /// Records whose rounds lie between one another.
    mutating func segment(records: Int = 3, rounds: Int = 3) -> TraceSegment {
        var frames: [TraceFrame] = []
        var begun = 0
        for _ in 0..<records + records * rounds {
            if begun < records && (begun == 0 || below(10) < 3) {
                frames.append(TraceFrame(record: begun, content: .start(start())))
                begun += 1
            } else {
                frames.append(TraceFrame(record: below(begun), content: .round(round())))
            }
        }
        return TraceSegment(header: TraceHeader(vocabularies: pair, number: 1), frames: frames)
    }

    mutating func start() -> TraceStart {
        TraceStart(
            drafterAdapter: below(2) == 0 ? nil : String(repeating: "a", count: 64), targetAdapter: nil,
            mode: "trie", continues: below(3) == 0, skipped: 0, context: draft(below(9)))
    }

    mutating func round() -> TracedRound {
        let accepted = below(4)
        return TracedRound(tokens: (0...accepted).map { token(accepted: $0 < accepted) })
    }

    private mutating func token(accepted: Bool) -> TracedToken {
        let unspelled = below(2) == 0 ? 0 : single(0.1)
        let (targets, drafts) = (min(pair.targetSize, 1 << 20), min(pair.draftSize, 1 << 20))
        return TracedToken(
            tokenId: Int32(below(targets)), surprisal: single(9 * random.uniform()), accepted: accepted,
            distribution: masses(targets, beside: 0), roots: masses(drafts, beside: unspelled), unspelled: unspelled)
    }

    /// A distribution over some ids, the rest of its mass elsewhere.
    private mutating func masses(_ size: Int, beside: Double) -> Masses {
        let ids = Set((0..<below(7)).map { _ in Int32(below(size)) }).sorted()
        let weights = (0...ids.count).map { _ in random.uniform() }
        let shares = weights.map { $0 / weights.reduce(0, +) * (1 - beside) }
        let kept = ids.indices.filter { shares[$0] >= Defaults.traceFloor }
        let rest = 1 - beside - kept.reduce(0.0) { $0 + shares[$1] }
        return Masses(
            ids: kept.map { ids[$0] }, probabilities: kept.map { floatOf(half: halfOf(Float(shares[$0]))) },
            rest: single(max(0, rest)))
    }

    private mutating func draft(_ count: Int) -> [Int32] {
        (0..<count).map { _ in Int32(below(min(pair.draftSize, 1 << 20))) }
    }

    private mutating func below(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }

    private func single(_ number: Double) -> Double { Double(Float(number)) }
}

/// The beginning of a record of mode trie, without adapters.
func plainStart(_ context: [Int32], skipped: Int = 0) -> TraceStart {
    TraceStart(
        drafterAdapter: nil, targetAdapter: nil, mode: "trie", continues: false, skipped: skipped, context: context)
}

func numberedRound(_ number: Int) -> TracedRound {
    let ids = (0..<Int32(4 + number % 7)).map { $0 }
    let probabilities = [Float](repeating: 1 / 64, count: ids.count)
    let masses = Masses(ids: ids, probabilities: probabilities, rest: 1 - Double(ids.count) / 64)
    return TracedRound(tokens: [
        TracedToken(
            tokenId: Int32(number), surprisal: 0.5, accepted: false, distribution: masses, roots: masses, unspelled: 0)
    ])
}

/// Records numbered rounds one after another, and gives the place of the last.
@discardableResult
func recordRounds(_ place: TraceStore, _ first: Int, _ count: Int, at: SegmentPlace? = nil) -> SegmentPlace? {
    var at = at
    for number in first..<first + count {
        let (skipped, context) = windowOf([Int32](repeating: 7, count: 2 * number))
        at = place.append(numberedRound(number), at: at) { plainStart(context, skipped: skipped) }
    }
    return at
}

// A segment from the values that vectors describe it with.

func vocabulariesOf(_ segment: JsonObject) -> Vocabularies {
    Vocabularies(
        draftFingerprint: segment["draft_fingerprint"]!.string,
        targetFingerprint: segment["target_fingerprint"]!.string,
        draftSize: segment["draft_size"]!.int, targetSize: segment["target_size"]!.int)
}

func recordsOf(_ segment: JsonObject) -> [Traced] {
    segment["records"]!.array.map(\.object).map { record in
        Traced(start: startOf(record["start"]!.object), rounds: record["rounds"]!.array.map { roundOf($0.object) })
    }
}

private func startOf(_ json: JsonObject) -> TraceStart {
    TraceStart(
        drafterAdapter: json["drafter_adapter"]!.optional?.string,
        targetAdapter: json["target_adapter"]!.optional?.string,
        mode: json["mode"]!.string, continues: json["continues"]!.bool,
        skipped: json["skipped"]!.int, context: json["context"]!.int32s)
}

private func roundOf(_ json: JsonObject) -> TracedRound {
    TracedRound(tokens: json["tokens"]!.array.map { tokenOf($0.object) })
}

private func tokenOf(_ json: JsonObject) -> TracedToken {
    TracedToken(
        tokenId: Int32(json["token_id"]!.int), surprisal: json["surprisal"]!.num, accepted: json["accepted"]!.bool,
        distribution: massesOf(json["distribution"]!.object), roots: massesOf(json["roots"]!.object),
        unspelled: json["unspelled"]!.num)
}

private func massesOf(_ json: JsonObject) -> Masses {
    Masses(ids: json["ids"]!.int32s, probabilities: json["probabilities"]!.floats, rest: json["rest"]!.num)
}
