// The file of a trace, format version 2: spec/12-trace.md. A header, then frames that are only ever appended.

/// The first bytes of each segment.
let traceMagic: [UInt8] = [0x89, 0x4f, 0x44, 0x54, 0x0d, 0x0a, 0x1a, 0x0a]
/// No segment is larger; a larger file is not read: it may hold 150,000 tokens.
let maxSegmentBytes = 1 << 22
/// Bytes of the header, with its CRC-32.
let traceHeaderBytes = 100
/// Bytes of a frame without its payload: the fields before it, the CRC-32 after it.
let frameBytes = 16

private let version = 2
private let maxTraceIds = 1 << 31
private let fieldBytes = 12  // of a frame before its payload
private let checkedBytes = 96  // of the header before its CRC-32
private let startKind = 1
private let roundKind = 2

struct TraceHeader: Sendable, Equatable {
    let vocabularies: Vocabularies
    /// Of the segment in its store.
    let number: UInt64
}

/// What an entry of a trace's file holds: the beginning of a record, or a round of it.
enum TraceContent: Sendable, Equatable {
    case start(TraceStart)
    case round(TracedRound)
}

struct TraceFrame: Sendable, Equatable {
    /// The number of the record; records have numbers 0, 1, ... in a segment.
    let record: Int
    let content: TraceContent
}

struct TraceSegment: Sendable {
    let header: TraceHeader
    let frames: [TraceFrame]
    /// Bytes at the end that were left out, of a write that did not finish.
    var torn = 0

    /// The records in the order in which they began, without those that have no round.
    func generations() -> [Traced] {
        numberedGenerations().map(\.traced)
    }

    /// The same with the numbers of the records.
    func numberedGenerations() -> [(record: Int, traced: Traced)] {
        var begun: [(record: Int, traced: Traced)] = []
        var places: [Int: Int] = [:]
        for frame in frames {
            switch frame.content {
            case .start(let start):
                places[frame.record] = begun.count
                begun.append((frame.record, Traced(start: start, rounds: [])))
            case .round(let round):
                if let place = places[frame.record] { begun[place].traced.rounds.append(round) }
            }
        }
        return begun.filter { !$0.traced.rounds.isEmpty }
    }
}

/// The first 100 bytes of a segment.
func encodeTraceHeader(_ header: TraceHeader) throws -> [UInt8] {
    let pair = header.vocabularies
    let data = ByteWriter().put(traceMagic).u32(version).u32(pair.draftSize).u32(pair.targetSize).u32(0)
    data.put(try bytesOf(hex: pair.draftFingerprint)).put(try bytesOf(hex: pair.targetFingerprint)).u64(header.number)
    return data.u32(Int(crc32(data.bytes))).bytes
}

/// The bytes of one entry: equal entries give equal bytes.
func encodeFrame(_ frame: TraceFrame, _ vocabularies: Vocabularies) throws -> [UInt8] {
    let layout = PayloadLayout(vocabularies)
    let (kind, payload): (Int, [UInt8])
    switch frame.content {
    case .start(let start): (kind, payload) = (startKind, try encodeStart(start, layout))
    case .round(let round): (kind, payload) = (roundKind, encodeRound(round, layout))
    }
    let data = ByteWriter().u32(payload.count).u16(kind).u16(0).u32(frame.record).put(payload)
    return data.u32(Int(crc32(data.bytes))).bytes
}

/// The bytes of a segment without torn bytes: equal segments give equal bytes.
func encodeSegment(_ segment: TraceSegment) throws -> [UInt8] {
    var data = try encodeTraceHeader(segment.header)
    for frame in segment.frames { data += try encodeFrame(frame, segment.header.vocabularies) }
    return data
}

/// The header of a file of at least these bytes.
///
/// - Throws: ``OmniDraftError/traceFile(_:)`` with the name of the first fault, in the order of spec/12-trace.md.
func decodeTraceHeader(_ data: Bytes) throws -> TraceHeader {
    let isTrace = data.count >= traceMagic.count && data.array(0, traceMagic.count) == traceMagic
    try demandTrace(isTrace, "not_a_trace", "it is not a trace")
    try demandTrace(data.count >= 12, "truncated", cut(data))
    let found = data.u32(8)
    try demandTrace(found == version, "version", "it has format version \(found), this omnidraft reads \(version)")
    try demandTrace(data.count >= traceHeaderBytes, "truncated", cut(data))
    try demandTrace(sum(data, 0, checkedBytes) == data.u32(checkedBytes), "checksum", "its header is damaged")
    let reserved = data.u32(20)
    try demandTrace(reserved == 0, "reserved", "its reserved field is \(reserved), not 0")
    let (draftSize, targetSize) = (data.u32(12), data.u32(16))
    for (name, size) in [("drafter", draftSize), ("target", targetSize)] {
        try demandTrace(size >= 1 && size <= maxTraceIds, "limits", "its \(name) has \(size) ids, not 1 to 2^31")
    }
    let pair = Vocabularies(
        draftFingerprint: hexOf(data.array(24, 56)), targetFingerprint: hexOf(data.array(56, 88)),
        draftSize: draftSize, targetSize: targetSize)
    return TraceHeader(vocabularies: pair, number: data.u64(88))
}

/// The segment in a file's bytes.
///
/// - Throws: ``OmniDraftError/traceFile(_:)`` with the name of the first fault.
func decodeSegment(_ data: Bytes) throws -> TraceSegment {
    let header = try decodeTraceHeader(data)
    let scan = try scanFrames(data)
    let layout = PayloadLayout(header.vocabularies)
    let frames = try zip(scan.ends, scan.ends.dropFirst()).map { try decodeFrame(data, $0, $1, layout) }
    try checkRecords(frames)
    return TraceSegment(header: header, frames: frames, torn: scan.torn)
}

/// Where the frames of a segment are.
struct TraceScan {
    /// The ends of the whole frames, the header's end first.
    var ends: [Int]
    /// Bytes at the end that are no whole frame.
    var torn: Int
    /// Records that begin among the frames.
    var starts: Int
}

/// Find the whole frames of a segment, whose header is whole.
///
/// A frame that is not whole is torn if no whole frame follows it; else the file was damaged later.
///
/// - Throws: ``OmniDraftError/traceFile(_:)`` with the fault `checksum`.
func scanFrames(_ data: Bytes) throws -> TraceScan {
    var scan = TraceScan(ends: [traceHeaderBytes], torn: 0, starts: 0)
    var at = traceHeaderBytes
    while at < data.count {
        let end = endOf(data, at)
        guard let end, isWhole(data, at, end) else {
            let follows = end.flatMap { next in endOf(data, next).map { isWhole(data, next, $0) } } ?? false
            try demandTrace(!follows, "checksum", "its entry at byte \(at) is damaged")
            break
        }
        if data.u16(at + 4) == startKind { scan.starts += 1 }
        scan.ends.append(end)
        at = end
    }
    scan.torn = data.count - at
    return scan
}

/// The end of the frame at an offset by its length; nil if that is outside the file.
private func endOf(_ data: Bytes, _ at: Int) -> Int? {
    if data.count - at < frameBytes { return nil }
    let end = at + frameBytes + data.u32(at)
    return end <= data.count ? end : nil
}

private func isWhole(_ data: Bytes, _ at: Int, _ end: Int) -> Bool { sum(data, at, end - 4) == data.u32(end - 4) }

private func sum(_ data: Bytes, _ from: Int, _ until: Int) -> Int {
    data.withUnsafeBytes { Int(crc32($0[from..<until])) }
}

private func decodeFrame(_ data: Bytes, _ at: Int, _ end: Int, _ layout: PayloadLayout) throws -> TraceFrame {
    let kind = data.u16(at + 4)
    let reserved = data.u16(at + 6)
    try demandTrace(reserved == 0, "reserved", "the reserved field of an entry is \(reserved), not 0")
    let isKnown = kind == startKind || kind == roundKind
    try demandTrace(isKnown, "kind", "it has an entry of kind \(kind), neither \(startKind) nor \(roundKind)")
    let payload = data.part(at + fieldBytes, end - 4)
    let content: TraceContent =
        kind == startKind ? .start(try decodeStart(payload, layout)) : .round(try decodeRound(payload, layout))
    return TraceFrame(record: data.u32(at + 8), content: content)
}

/// Records are numbered as they begin.
private func checkRecords(_ frames: [TraceFrame]) throws {
    var begun = 0
    for frame in frames {
        let record = frame.record
        if case .start = frame.content {
            try demandTrace(record == begun, "order", "its record \(record) begins after \(begun) others")
            begun += 1
        }
        try demandTrace(record < begun, "order", "it has a round of record \(record), which has not begun")
    }
}

private func cut(_ data: Bytes) -> String { "it is cut short: \(data.count) bytes of at least \(traceHeaderBytes)" }
