import Foundation

// Unpack an archive: every hash is checked, and a directory takes its name when whole (spec/16-archive.md).

private let spare = 1 << 20  // bytes for directories
private let elsewhere = "choose another place"

/// Unpack an archive.
///
/// - Returns: the directory that was written: `out`, or `drafters/ADDRESS` below it.
@discardableResult
func unpack(
    _ archive: Archive, _ out: String, overwrite: Bool = false, progress: ByteProgress = { _, _ in }
) throws -> String {
    let isDrafter = archive.index.drafter == .only
    let place = isDrafter ? joined(joined(out, sharedName), archive.address) : out
    if isDrafter {
        if try sharedPlaceExists(place) { return try complete(archive, place, progress) }
    } else {
        try refuseExisting(place, overwrite)
    }
    try whole(archive, place) { work in
        try writeFiles(archive, work, archive.files, progress)
        if !isDrafter {
            for (name, data) in archive.beside.members { try newFile(joined(work, name)) { try writeAll($0, data) } }
        }
        syncTree(work)
        // Something may have been put there meanwhile.
        if !isDrafter && overwrite { try refuseExisting(place, overwrite) }
        try takeName(work, place, replaces: !isDrafter && overwrite)
    }
    return place
}

/// Runs `body`; an error of the system or of a claim is the refusal of a place that cannot be written.
func writing<T>(_ place: String, _ body: () throws -> T) throws -> T {
    do {
        return try body()
    } catch let error as FileError {
        throw unwritable(place, error.message)
    } catch let error as ClaimError {
        throw unwritable(place, error.refusal.message)
    }
}

private func sharedPlaceExists(_ place: String) throws -> Bool {
    try refuseLink(place)
    try refuseLink(split(place).directory)
    return try writing(place) {
        try recover(place)
        return exists(place)
    }
}

/// Refuse a link where a shared drafter is kept; no bundle would read through it.
private func refuseLink(_ path: String) throws {
    if !isLink(path) { return }
    throw archiveError("outside", "\(path) is a link, and a shared drafter is never behind one", elsewhere)
}

/// Refuse a place that exists; what a killed process left is put right first.
private func refuseExisting(_ out: String, _ overwrite: Bool) throws {
    try writing(out) { try recover(out) }
    if !exists(out) && !isLink(out) { return }
    if !overwrite { throw archiveError("unwritable", "\(out) exists already", "delete it or \(elsewhere)") }
    if let refusal = refusalToReplace(out) { throw archiveError("unwritable", refusal.message, refusal.remedy) }
}

/// Runs `write` with a temporary directory beside the place, where the archive has room.
private func whole(_ archive: Archive, _ place: String, _ write: (String) throws -> Void) throws {
    try writing(place) {
        let parent = split(place).directory
        try makeDirectories(parent)
        try checkSpace(parent, needed: archive.total + spare, what: archive.path)
        try newDirectory(place, write)
    }
}

/// Refuse a directory whose disk has too little room.
///
/// - Throws: ``OmniDraftError/archive(_:)`` `space`; ``FileError``: the system does not say.
func checkSpace(_ directory: String, needed: Int, what: String) throws {
    var status = statvfs()
    if statvfs(directory, &status) != 0 { throw systemError(errno) }
    let free = Double(status.f_bavail) * Double(status.f_frsize)
    if free >= Double(needed) { return }
    let message = "\(what) needs \(needed) bytes and \(directory) has \(UInt64(free)) left"
    throw archiveError("space", message, "free some space or \(elsewhere)")
}

/// The refusal of a place that cannot be written; `space` where the disk is full.
func unwritable(_ place: String, _ why: String) -> OmniDraftError {
    let isFull = [ENOSPC, EDQUOT].contains { isSame(systemError($0).message, why) }
    return archiveError(
        isFull ? "space" : "unwritable", "\(place) cannot be written (\(why))",
        isFull ? "free some space or \(elsewhere)" : elsewhere)
}

/// A refusal of an archive with a remedy of its own.
func archiveError(_ fault: String, _ message: String, _ remedy: String) -> OmniDraftError {
    .archive(Refusal(fault: fault, message: message, remedy: remedy))
}

/// Write files that the manifest lists; of a drafter alone, without `drafter/` in their paths.
private func writeFiles(_ archive: Archive, _ work: String, _ names: [String], _ progress: ByteProgress) throws {
    var done = 0
    let total = cappedSum(names.compactMap { archive.bundle.files[$0]?.bytes })
    let data = try bytesOf(archive)
    for name in names {
        try newFile(joined(work, below(archive, name))) { file in
            try readChecked(archive, data: data, name: name) { piece in
                try writeAll(file, piece)
                done += piece.count
                try progress(done, total)
            }
        }
    }
}

/// A new file, flushed to the disk at the end. Files of a bundle are read by others than their owner, as the mask says.
private func newFile(_ path: String, _ write: (Int32) throws -> Void) throws {
    try makeDirectories(split(path).directory)
    let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
    if file < 0 { throw systemError(errno) }
    defer { close(file) }
    try write(file)
    try flush(file)
}

/// The path of a file below the directory that is written.
private func below(_ archive: Archive, _ name: String) -> String {
    archive.index.drafter == .only ? without(drafterPrefix, of: name) : name
}

/// Add the files that a shared drafter lacks, or has damaged; each takes its name when it is whole.
private func complete(_ archive: Archive, _ place: String, _ progress: ByteProgress) throws -> String {
    let targets = ByName(archive.files.map { ($0, below(archive, $0)) })
    for target in targets.values {
        let parts = partsOf(path: target)
        for count in 1...parts.count { try refuseLink(joined(place, parts[..<count].joined(separator: "/"))) }
    }
    let lacking = targets.members.filter { !isThere(archive, joined(place, $0.value), $0.name) }
    try whole(archive, place) { work in
        try writeFiles(archive, work, lacking.map(\.name), progress)
        for (_, target) in lacking {
            let path = joined(place, target)
            try makeDirectories(split(path).directory)
            try renameFile(joined(work, target), path)
        }
        syncTree(place)
    }
    return place
}

/// Whether a file is the one of the manifest; one that cannot be read is not.
private func isThere(_ archive: Archive, _ file: String, _ name: String) -> Bool {
    guard let record = archive.bundle.files[name], let stamp = try? stampOf(file), stamp.size == record.bytes,
        let hash = try? fileSha256(file)
    else { return false }
    return isSame(hash, record.sha256)
}
