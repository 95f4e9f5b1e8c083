struct FoundRecord {
    let segment: Int
    let record: Int
    let traced: Traced
}

/// The answers in a trace's directory, which a session may append to and delete from meanwhile.
struct RecordedAnswers {
    let place: String
    /// Of the pair; a trace of another pair is refused.
    let vocabularies: Vocabularies

    /// The records behind a place, in order. One segment at a time is in memory.
    ///
    /// - Parameter read: the last record that was taken; nil takes all. A trace that was started again is read from its
    ///   beginning.
    /// - Throws: ``OmniDraftError/traceFile(_:)``: a segment is refused.
    func since(_ read: AnswerPlace?, isGrowing: Bool, _ take: (FoundRecord) throws -> Void) throws {
        let numbers = try numbers()
        guard let last = numbers.last else { return }
        let from = read.flatMap { $0.segment <= last ? $0 : nil }
        for number in numbers where number >= from?.segment ?? 0 {
            guard let generations = try segment(number)?.generations() else { continue }
            let first = from.flatMap { $0.segment == number ? $0.record + 1 : nil } ?? 0
            let end = generations.count - (isGrowing && number == last ? 1 : 0)
            if first >= end { continue }
            for record in first..<end {
                try take(FoundRecord(segment: number, record: record, traced: generations[record]))
            }
        }
    }

    /// A segment; nil where it was deleted to make room.
    ///
    /// - Throws: ``OmniDraftError/traceFile(_:)``: the segment is refused.
    func segment(_ number: Int) throws -> TraceSegment? {
        let file = joined(place, segmentName(number))
        if !exists(file) { return nil }
        var found: TraceSegment?
        do {
            try readSegments(file, vocabularies) { found = $1 }
        } catch {
            if exists(file) { throw error }  // else a session deleted it just now
        }
        return found
    }

    /// The numbers of the segments, ascending.
    private func numbers() throws -> [Int] {
        if !isDirectory(place) { return [] }
        do {
            return try segmentsOf(place).compactMap { numberOf(split($0).name) }
        } catch let error as FileError {
            throw traceError("unreadable", "\(place) cannot be read (\(error.message))", "check the path")
        }
    }
}
