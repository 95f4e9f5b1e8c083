// An archive that was opened: read or map its files in place, and check their hashes (spec/16-archive.md).

private let again = "download it again or run `omnidraft pack` again"

typealias ByteProgress = (_ done: Int, _ total: Int) throws -> Void

/// An archive whose headers, manifest and index are right.
struct Archive: Sendable {
    /// What its manifest says; its path is the archive.
    let bundle: ModelBundle
    let index: PackIndex
    let entries: ByName<ArchiveEntry>
    /// The bytes of the entries that the manifest does not list: itself, its signature, the index.
    let beside: ByName<[UInt8]>

    var path: String { bundle.path }

    var address: String { drafterAddress(bundle.files) }

    /// The files of the manifest that the archive holds, in order.
    var files: [String] { bundle.files.names.filter(index.holds) }

    /// Bytes of all files and of the entries beside them; sizes of a manifest may be any, so the sum has a bound.
    var total: Int { cappedSum(beside.values.map(\.count) + files.compactMap { bundle.files[$0]?.bytes }) }

    /// A file as it lies in the archive, mapped. Its hash is not checked.
    ///
    /// - Throws: ``OmniDraftError/bundle(_:)`` `left_out`, ``OmniDraftError/archive(_:)``.
    func mapped(_ name: String) throws -> Bytes {
        try bundle.places.refuseLeftOut(name)
        guard let entry = entries[name] else {
            throw refusedArchive(path, "it does not hold \(quoted(.string(name)))", "entries")
        }
        do {
            let data = try mapFile(path)
            if entry.end > data.count { throw refusedArchive(path, "it became shorter", "unreadable") }
            return data.part(entry.begin, entry.end)
        } catch let error as FileError {
            throw refusedArchive(path, "it cannot be read (\(reason(error)))", "unreadable")
        }
    }
}

/// The bytes of an archive that was opened before.
///
/// - Throws: ``OmniDraftError/archive(_:)`` `unreadable`.
func bytesOf(_ archive: Archive) throws -> ZipBytes {
    try onFileError(of: try ZipBytes(archive.path)) {
        refusedArchive(archive.path, "it cannot be read (\($0))", "unreadable")
    }
}

/// The bytes of a file that the manifest lists, in pieces; a wrong hash is thrown behind the last piece.
///
/// - Throws: ``OmniDraftError/archive(_:)`` `checksum`, `truncated` or `unreadable`; what `take` throws.
func readChecked(_ archive: Archive, data: ZipBytes, name: String, _ take: ([UInt8]) throws -> Void) throws {
    guard let entry = archive.entries[name], let record = archive.bundle.files[name] else {
        throw refusedArchive(archive.path, "it does not hold \(quoted(.string(name)))", "entries")
    }
    var hash = Sha256()
    var crc: UInt32 = 0
    try readPieces(archive.path, data: data, entry: entry) { piece in
        piece.withUnsafeBytes { hash.update($0) }
        crc = crc32(piece, after: crc)
        try take(piece)
    }
    if !isSame(hexOf(hash.finish()), record.sha256) || crc != entry.crc32 {
        throw refusedArchive(archive.path, "the checksum of \(name) is wrong", "checksum")
    }
}

/// The bytes of an entry, in pieces.
///
/// - Throws: ``OmniDraftError/archive(_:)`` `truncated`, where the archive became shorter; `unreadable`.
func readPieces(_ path: String, data: ZipBytes, entry: ArchiveEntry, _ take: ([UInt8]) throws -> Void) throws {
    var done = 0
    while done < entry.size {
        let piece: [UInt8]
        do {
            piece = try data.read(entry.begin + done, min(entry.size - done, pieceBytes))
        } catch let error as FileError {
            throw refusedArchive(path, "it cannot be read (\(reason(error)))", "unreadable")
        }
        if piece.isEmpty { throw refusedArchive(path, "\(entry.name) is cut short", "truncated") }
        try take(piece)
        done += piece.count
    }
}

func refusedArchive(_ path: String, _ why: String, _ fault: String) -> OmniDraftError {
    .archive(Refusal(fault: fault, message: "\(path) is refused: \(why)", remedy: again))
}
