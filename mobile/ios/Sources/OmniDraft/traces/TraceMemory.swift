// A trace in memory: recorded generations for a learner in the same process.

/// Records generations as a ``TraceStore`` does, and keeps them until they are taken.
final class TraceMemory: TracePlace {
    let vocabularies: Vocabularies
    private let paused = Guarded(false)
    private let kept = Guarded(Kept())

    private struct Kept {
        var generations: [Traced] = []
        var taken = 0  // number of the first record that was not taken
    }

    init(_ vocabularies: Vocabularies) { self.vocabularies = vocabularies }

    var name: String { "this process's memory" }
    var problem: String? { nil }
    var isRecording: Bool { !paused.with { $0 } }

    func pause() { paused.with { $0 = true } }
    func resume() { paused.with { $0 = false } }

    func append(_ traced: TracedRound, at: SegmentPlace?, _ start: () -> TraceStart) -> SegmentPlace? {
        if !isRecording { return nil }
        return kept.with { kept in
            var record = at?.record ?? -1
            if record < kept.taken {
                kept.generations.append(Traced(start: at == nil ? start() : start().continuing(), rounds: []))
                record = kept.taken + kept.generations.count - 1
            }
            kept.generations[record - kept.taken].rounds.append(traced)
            return SegmentPlace(segment: 0, record: record)
        }
    }

    /// The generations recorded since the last call, in the order in which they began.
    func take() -> [Traced] {
        kept.with { kept in
            defer {
                kept.taken += kept.generations.count
                kept.generations = []
            }
            return kept.generations
        }
    }

    /// Does nothing: there is no disk.
    func sync() {}
}

/// Some generations as the bytes of one segment of a trace (spec/12-trace.md).
///
/// - Throws: ``ValueError``: a fingerprint or a digest is not hexadecimal.
func segmentOf(_ traces: [Traced], _ vocabularies: Vocabularies, number: UInt64) throws -> [UInt8] {
    var frames: [TraceFrame] = []
    for (record, traced) in traces.enumerated() {
        frames.append(TraceFrame(record: record, content: .start(traced.start)))
        frames += traced.rounds.map { TraceFrame(record: record, content: .round($0)) }
    }
    return try encodeSegment(
        TraceSegment(header: TraceHeader(vocabularies: vocabularies, number: number), frames: frames))
}
