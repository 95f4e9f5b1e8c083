import Foundation

// A trace on disk: a directory of segments, of which the oldest is deleted to make room. A killed process loses the current
// round; a machine that loses power loses the rounds since the last flush.

/// Where a record continues: the number of the segment, and of the record in it.
struct SegmentPlace: Sendable, Equatable {
    let segment: Int
    let record: Int
}

/// Records generations in a directory; nothing is sent anywhere.
///
/// One process and one store at a time record in a directory; any number of sessions and threads may share the store.
final class TraceStore: Sendable {
    /// The directory; it is made, for its owner alone, where it is absent.
    let path: String
    let vocabularies: Vocabularies
    /// Bytes of all segments together.
    let maxBytes: Int
    private let flags = Guarded(Flags())  // asked without waiting for the disk
    private let writer: Guarded<Writer>

    private struct Flags {
        var isPaused = false
        var isClosed = false
        var problem: String?
    }

    private struct Writer {
        var claim: Claim?
        var segment: OpenSegment?  // that is written to
        var last = 0  // number of the segment before a wipe; records may still be at places of it
    }

    init(_ path: String, _ vocabularies: Vocabularies, maxBytes: Int = Defaults.traceMaxBytes) throws {
        if maxBytes < Defaults.traceLeastBytes {
            throw settingError("maxBytes \(maxBytes) is less than \(Defaults.traceLeastBytes)", "16 MB is usual")
        }
        self.path = path
        self.vocabularies = vocabularies
        self.maxBytes = maxBytes
        do {
            let claim = try claimForRecording(path)
            let segment = try lastSegment(path, vocabularies, most: segmentBytes(maxBytes))
            writer = Guarded(Writer(claim: claim, segment: segment))
        } catch let error as FileError {
            let message = "no trace can be recorded in \(path) (\(error.message))"
            throw traceError("unwritable", message, "choose another place")
        }
    }

    /// Why recording stopped, in one sentence; nil while it works.
    var problem: String? { flags.with { $0.problem } }
    /// Whether rounds are recorded now.
    var isRecording: Bool { flags.with { !$0.isPaused && !$0.isClosed && $0.problem == nil } }

    /// Records nothing more until ``resume()``; from any thread, without waiting for a write.
    func pause() { flags.with { $0.isPaused = true } }
    func resume() { flags.with { $0.isPaused = false } }

    /// Flush the records to the disk, and release the directory. A second call does nothing.
    func close() {
        flags.with { $0.isClosed = true }
        writer.with { writer in
            flush(writer.segment)
            writer.segment = nil
            writer.claim?.close()
            writer.claim = nil
        }
    }

    /// Delete the records and nothing else; the store may go on recording.
    ///
    /// - Returns: the number of deleted files.
    /// - Throws: ``OmniDraftError/traceFile(_:)`` with the fault `unwritable`.
    @discardableResult
    func wipe() throws -> Int {
        try writer.with { writer in
            writer.last = writer.segment?.number ?? writer.last
            writer.segment = nil
            return try onFileError(of: try removeSegments(path)) {
                traceError("unwritable", "\(path) cannot be wiped (\($0))", "check the path")
            }
        }
    }

    /// Record a round. A full disk stops the recording, never the generation.
    ///
    /// - Parameters:
    ///   - at: the value returned for the round before; nil begins a record.
    ///   - start: makes the beginning of a record; called only if the round begins one.
    /// - Returns: where the record continues; nil where nothing was recorded.
    func append(_ traced: TracedRound, at: SegmentPlace?, _ start: () -> TraceStart) -> SegmentPlace? {
        writer.with { writer in
            if !isRecording { return nil }
            do {
                return try added(&writer, traced, at, start)
            } catch {
                writer.segment = nil
                stop("cannot be written", error)
                return nil
            }
        }
    }

    /// Makes what was recorded reach the disk.
    func sync() { writer.with { flush($0.segment) } }

    private func flush(_ segment: OpenSegment?) {
        do {
            try segment?.sync()
        } catch {
            stop("cannot be flushed", error)
        }
    }

    private func stop(_ what: String, _ error: any Error) {
        let problem = "recording stopped: \(path) \(what) (\(reason(error)))"
        flags.with { $0.problem = problem }
    }

    private func added(
        _ writer: inout Writer, _ traced: TracedRound, _ at: SegmentPlace?, _ start: () -> TraceStart
    ) throws -> SegmentPlace? {
        if let at, let segment = writer.segment, at.segment == segment.number {
            let data = try encodeFrame(TraceFrame(record: at.record, content: .round(traced)), vocabularies)
            if segment.size + data.count <= segmentBytes(maxBytes) {
                try segment.write(data)
                return at
            }
        }
        return try begun(&writer, at == nil ? start() : start().continuing(), traced)
    }

    /// Write a new record and its first round.
    private func begun(_ writer: inout Writer, _ start: TraceStart, _ traced: TracedRound) throws -> SegmentPlace? {
        var data = try record(writer.segment?.records ?? 0, start, traced)
        if let segment = writer.segment, segment.size + data.count <= segmentBytes(maxBytes) {
            return try appended(data, segment)
        }
        // A record that is larger than a segment, as no real round is, is not recorded.
        if traceHeaderBytes + data.count > segmentBytes(maxBytes) { return nil }
        let segment = try newSegment(&writer)
        data = try record(0, start, traced)
        return try appended(data, segment)
    }

    private func appended(_ data: [UInt8], _ segment: OpenSegment) throws -> SegmentPlace {
        try segment.write(data)
        segment.records += 1
        return SegmentPlace(segment: segment.number, record: segment.records - 1)
    }

    private func record(_ number: Int, _ start: TraceStart, _ traced: TracedRound) throws -> [UInt8] {
        try encodeFrame(TraceFrame(record: number, content: .start(start)), vocabularies)
            + encodeFrame(TraceFrame(record: number, content: .round(traced)), vocabularies)
    }

    /// Begin a segment, and delete the oldest, so that the bound holds when the new segment is full.
    private func newSegment(_ writer: inout Writer) throws -> OpenSegment {
        try writer.segment?.sync()
        let last = try segmentsOf(path).compactMap { numberOf(split($0).name) }.max() ?? 0
        let number = 1 + max(writer.segment?.number ?? writer.last, last)
        writer.segment = nil
        try evict(path, room: maxBytes - segmentBytes(maxBytes))
        let data = try encodeTraceHeader(TraceHeader(vocabularies: vocabularies, number: UInt64(number)))
        let file = joined(path, segmentName(number))
        try writeAtomically(file, data)
        let segment = try OpenSegment(file, number: number, size: data.count, records: 0)
        writer.segment = segment
        return segment
    }
}

private func segmentBytes(_ maxBytes: Int) -> Int { min(maxBytes / Defaults.traceSegments, maxSegmentBytes) }

/// Check all segments, and open the last one if it is whole and small enough.
private func lastSegment(_ path: String, _ vocabularies: Vocabularies, most: Int) throws -> OpenSegment? {
    let segments = try segmentsOf(path)
    for segment in segments { try checkSegment(segment, vocabularies) }
    guard let last = segments.last, let number = numberOf(split(last).name), let whole = wholeSegment(last) else {
        return nil
    }
    return whole.size < most
        ? try OpenSegment(last, number: number, size: whole.size, records: whole.records) : nil
}

/// Size and records of a segment that is whole; nil of one that is torn, damaged or too large, which stays.
private func wholeSegment(_ file: String) -> (size: Int, records: Int)? {
    guard let data = try? Bytes(readFile(file, most: maxSegmentBytes)), (try? decodeTraceHeader(data)) != nil,
        let scan = try? scanFrames(data), scan.torn == 0
    else { return nil }
    return (data.count, scan.starts)
}

/// A segment that is appended to; the file is closed with the object. The store's lock is held while it is used.
private final class OpenSegment {
    let number: Int
    private(set) var size: Int
    var records: Int
    private let descriptor: Int32
    private var unsynced = 0

    init(_ file: String, number: Int, size: Int, records: Int) throws {
        // A link is refused: the file is the store's own.
        descriptor = open(file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW)
        if descriptor < 0 { throw systemError(errno) }
        self.number = number
        self.size = size
        self.records = records
    }

    deinit { close(descriptor) }

    /// Append with one write; the part that a full disk took is cut off again.
    func write(_ data: [UInt8]) throws {
        do {
            try writeAll(descriptor, data)
        } catch {
            // Where the cut fails too, the torn bytes are left out by the next reader.
            _ = ftruncate(descriptor, off_t(size))
            throw error
        }
        size += data.count
        unsynced += 1
        if unsynced >= Defaults.traceSyncRounds { try sync() }
    }

    func sync() throws {
        if unsynced > 0 { try flush(descriptor) }
        unsynced = 0
    }
}
