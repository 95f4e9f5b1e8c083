import Foundation

// The directory of a trace: one writer at a time, a bound, and deletion of nothing but traces.

/// Delete the segments in a directory and the leftovers of their writers.
///
/// - Returns: the number of deleted files.
/// - Throws: ``FileError``: a segment cannot be read or deleted.
func removeSegments(_ path: String) throws -> Int {
    var count = 0
    for segment in try segmentsOf(path) where try isTrace(segment) {
        try deleteFile(segment)
        count += 1 + removeLeftovers(segment)
    }
    return count
}

/// Claim a directory for this process.
///
/// - Throws: ``OmniDraftError/traceFile(_:)`` with the fault `in_use`, ``FileError``.
func claimForRecording(_ path: String) throws -> Claim {
    do {
        return try Claim(path)
    } catch is ClaimError {
        throw traceError(
            "in_use", "a session is recording in \(path)", "end that session, or choose another directory")
    }
}

/// Refuse to record beside a segment of other vocabularies or versions; a damaged segment is skipped.
///
/// - Throws: ``OmniDraftError/traceFile(_:)`` with the fault `foreign_vocabulary` or `version`, ``FileError``.
func checkSegment(_ path: String, _ vocabularies: Vocabularies) throws {
    do {
        let data = Bytes(try OpenFile(path).read(traceHeaderBytes))
        try vocabularies.check(decodeTraceHeader(data).vocabularies)
    } catch OmniDraftError.traceFile(let refusal) {
        if refusal.fault != "foreign_vocabulary" && refusal.fault != "version" { return }
        let (directory, name) = split(path)
        throw traceError(
            refusal.fault, "no trace can be recorded in \(directory): of \(name), \(refusal.message)",
            "choose another place for this pair of models")
    }
}

/// Delete the oldest segments until the segments together have at most `room` bytes.
///
/// - Throws: ``FileError``: a segment cannot be read or deleted.
func evict(_ path: String, room: Int) throws {
    let segments = try segmentsOf(path).map { (path: $0, size: try OpenFile($0).size) }
    var total = segments.reduce(0) { $0 + $1.size }
    for segment in segments where total > room {
        total -= segment.size
        try deleteFile(segment.path)
    }
}

private func isTrace(_ path: String) throws -> Bool { try OpenFile(path).read(traceMagic.count) == traceMagic }

private func deleteFile(_ path: String) throws {
    if unlink(path) != 0 { throw systemError(errno) }
}
