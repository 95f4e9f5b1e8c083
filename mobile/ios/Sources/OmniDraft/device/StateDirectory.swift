import Foundation

// A private directory of small records, which the device can lose at any time (spec/08-phones.md, "What a device
// remembers"). A record that cannot be used is the same as none, and no function here throws for it.

/// Records of each kind; the oldest ones are deleted.
let mostRecords = 256
let mostRecordBytes = 1 << 14

private let end = ".json"
private let keyDigits = 32

/// The name of a record: 32 hexadecimal digits of the SHA-256 of texts, each with a zero byte after it.
func recordKey(_ parts: [String]) -> String {
    String(hexOf(sha256(parts.flatMap { Array($0.utf8) + [0] })).prefix(keyDigits))
}

/// The directory of what a device remembers. The app chooses it.
struct StateDirectory: Sendable {
    /// The directory, which need not exist; nil remembers nothing.
    let root: String?

    static let none = StateDirectory(root: nil)

    /// The bytes of a record; nil where there is none that may be used.
    ///
    /// - Parameter mostAge: seconds since the record was written; an older one is not used.
    func readRecord(_ kind: String, _ key: String, mostAge: Double = .infinity) -> [UInt8]? {
        guard let root, isPrivate(root, kind) else { return nil }
        let path = joined(joined(root, kind), key + end)
        // A record that cannot be read is the same as none.
        guard let written = (try? stampOf(path))?.modified else { return nil }
        if Date().timeIntervalSince1970 - Double(written) / 1e9 > mostAge { return nil }
        return try? readFile(path, most: mostRecordBytes)
    }

    /// Replace a record, and delete the oldest ones where there are too many.
    ///
    /// - Returns: whether the record was written; else the directory cannot be written, or is not this user's alone.
    func writeRecord(_ kind: String, _ key: String, _ data: [UInt8]) -> Bool {
        guard let root, data.count <= mostRecordBytes else { return false }
        let place = joined(root, kind)
        do {
            try makeDirectories(place)
            if !isPrivate(root, kind) { return false }
            try writeAtomically(joined(place, key + end), data)
        } catch {
            return false  // nothing is remembered, and nothing is said
        }
        deleteOldest(place)
        return true
    }

    /// Deletes a record, where there is one.
    func deleteRecord(_ kind: String, _ key: String) {
        if let root, isPrivate(root, kind) { unlink(joined(joined(root, kind), key + end)) }
    }
}

/// Whether the directory of a kind is this user's alone, in one that no other user can write.
private func isPrivate(_ root: String, _ kind: String) -> Bool {
    isOwnDirectory(root) && isOwnDirectory(joined(root, kind), isPrivate: true)
}

/// Deletes the oldest records where there are too many; what has another name is not a record.
private func deleteOldest(_ place: String) {
    let names = namesIn(place).filter { isRecord($0) && !isDirectory(joined(place, $0)) }
    if names.count <= mostRecords { return }
    let records = names.map { name in (modified: (try? stampOf(joined(place, name)))?.modified ?? 0, name: name) }
    // The names are in order, and a sort of Swift keeps no order of equals.
    let oldest = records.sorted { $0.modified != $1.modified ? $0.modified < $1.modified : precedes($0.name, $1.name) }
    for record in oldest.prefix(names.count - mostRecords) { unlink(joined(place, record.name)) }
}

private func isRecord(_ name: String) -> Bool {
    let bytes = Array(name.utf8)
    return bytes.count == keyDigits + end.utf8.count && bytes[keyDigits...].elementsEqual(end.utf8)
        && isHexadecimal(bytes[..<keyDigits], digits: keyDigits)
}
