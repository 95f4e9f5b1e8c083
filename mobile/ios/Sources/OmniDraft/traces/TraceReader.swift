import Foundation

// Read traces for training: one generation after another, from any number of files and devices.

/// The end of a segment's name.
let traceSuffix = ".odt"

private let prefix = "trace-"
private let digits = 10
private let usualRemedy = "delete it, or give a whole copy of it"
private let remedies = [
    "not_a_trace": "check the path",
    "unreadable": "check the path and its permissions",
    "version": "update omnidraft",
    "foreign_vocabulary": "use it with the pair of models that it was recorded with",
]

/// Gives the generations of some traces one after another to the function that it is called with.
typealias TraceSource = ((Traced) throws -> Void) throws -> Void

/// All generations of some traces, the oldest of each first. One segment at a time is in memory.
///
/// Torn bytes at the end of a segment are skipped. So is a segment that a recording session deletes meanwhile to make room.
///
/// - Parameters:
///   - vocabularies: of the models to train; nil accepts any.
///   - take: is called with each generation.
/// - Throws: ``OmniDraftError/traceFile(_:)`` with the name of the fault, the file and the remedy.
func readTraces(_ places: [String], _ vocabularies: Vocabularies? = nil, _ take: (Traced) throws -> Void) throws {
    for place in places {
        try readSegments(place, vocabularies) { _, segment in
            for traced in segment.generations() { try take(traced) }
        }
    }
}

/// The segments of one trace with their files; it throws as ``readTraces(_:_:_:)`` does.
func readSegments(
    _ place: String, _ vocabularies: Vocabularies? = nil, _ take: (String, TraceSegment) throws -> Void
) throws {
    let isDirectory = isDirectory(place)
    let files = isDirectory ? try listed(place) : [place]
    if files.isEmpty { throw traceError("not_a_trace", "\(place) holds no trace", "check the path") }
    for file in files {
        if let segment = try checkedSegment(file, vocabularies, mayBeAbsent: isDirectory) { try take(file, segment) }
    }
}

/// The segment of a file; nil where the recording session deleted it to make room.
private func checkedSegment(_ file: String, _ vocabularies: Vocabularies?, mayBeAbsent: Bool) throws -> TraceSegment? {
    do {
        let segment = try decodeSegment(Bytes(readFile(file, most: maxSegmentBytes)))
        try vocabularies?.check(segment.header.vocabularies)
        return segment
    } catch let error as FileError {
        if error.isAbsent && mayBeAbsent { return nil }
        if error.isAbsent {
            let remedy = "give a directory that a session with a trace recorded in"
            throw traceError("unreadable", "there is no trace \(file)", remedy)
        }
        throw refused("unreadable", file, "it cannot be read (\(error.message))")
    } catch OmniDraftError.traceFile(let refusal) {
        throw refused(refusal.fault, file, refusal.message)
    }
}

private func refused(_ fault: String, _ file: String, _ message: String) -> OmniDraftError {
    traceError(fault, "\(file) is refused: \(message)", remedies[fault] ?? usualRemedy)
}

private func listed(_ place: String) throws -> [String] {
    try onFileError(of: try segmentsOf(place)) { refused("unreadable", place, $0) }
}

/// The paths of the segments in a directory, by number.
///
/// - Throws: ``FileError``: the directory cannot be listed.
func segmentsOf(_ directory: String) throws -> [String] {
    if access(directory, R_OK | X_OK) != 0 { throw systemError(errno) }
    return namesIn(directory).filter { numberOf($0) != nil }.map { joined(directory, $0) }.filter(isRegularFile)
}

func segmentName(_ number: Int) -> String {
    let text = String(number)
    return prefix + String(repeating: "0", count: max(0, digits - text.utf8.count)) + text + traceSuffix
}

/// The number of a segment by its file name; nil where the name is not that of a segment.
func numberOf(_ name: String) -> Int? {
    let bytes = Array(name.utf8)
    let number = bytes.dropFirst(prefix.utf8.count).dropLast(traceSuffix.utf8.count)
    let fits =
        bytes.starts(with: prefix.utf8) && bytes.suffix(traceSuffix.utf8.count).elementsEqual(traceSuffix.utf8)
        && number.count == digits && bytes.count == prefix.utf8.count + digits + traceSuffix.utf8.count
        && number.allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
    return fits ? Int(String(decoding: number, as: UTF8.self)) : nil
}
