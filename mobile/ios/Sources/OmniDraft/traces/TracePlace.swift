/// Where a record continues: the number of the segment, and of the record in it.
struct SegmentPlace: Sendable, Equatable {
    let segment: Int
    let record: Int
}

/// Where rounds are recorded: a directory (``TraceStore``), or memory (``TraceMemory``). Any threads share it.
protocol TracePlace: AnyObject, Sendable {
    /// The name of this place in messages.
    var name: String { get }
    /// Of the ids.
    var vocabularies: Vocabularies { get }
    /// Why recording stopped, in one sentence; nil while it works.
    var problem: String? { get }
    /// Whether rounds are recorded now.
    var isRecording: Bool { get }

    /// Record nothing more until ``resume()``; from any thread, without waiting for a write.
    func pause()
    /// Record again.
    func resume()
    /// Record a round.
    ///
    /// - Parameters:
    ///   - at: the value returned for the round before; nil begins a record.
    ///   - start: makes the beginning of a record; called only if the round begins one.
    /// - Returns: where the record continues; nil where nothing was recorded.
    func append(_ traced: TracedRound, at: SegmentPlace?, _ start: () -> TraceStart) -> SegmentPlace?
    /// Make what was recorded reach the disk; called at the end of a generation.
    func sync()
}
