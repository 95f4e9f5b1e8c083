import Foundation

// Unpack a bundle from wherever an app has it: the engine of `OmniDraft.unpack` (spec/08-phones.md, "Assets that are
// not files").

private let noteBytes = 1 << 10
private let ofThePlace = ["unwritable", "space", "unreadable"]  // faults that another call may find mended

/// Unpack a bundle. A directory that exists and holds the same bundle is used as it is; where one of its files is absent or
/// has another size, all are written again.
///
/// - Returns: the directory that holds the bundle.
func install(
    _ source: BundleSource, into: String, overwrite: Bool = false,
    progress: @escaping @Sendable (Int, Int) throws -> Void = { _, _ in }
) async throws -> String {
    switch source {
    case .archive(let url):
        let file = try pathOf(url, "the archive")
        // Seconds of hashing and writing: not on a thread of Swift's own.
        return try await Worker("unpack").run {
            try installFile(file, into: into, overwrite: overwrite, progress: progress)
        }
    case .download(let url, let bytes, let sha256):
        let source = try DownloadSource(url, bytes: bytes, sha256: sha256)
        try source.checkSecure()
        return try await installAddress(
            source, into: into, overwrite: overwrite, progress: progress)
    }
}

/// Unpack an archive of the file system; see above.
func installFile(
    _ file: String, into: String, overwrite: Bool = false,
    progress: ByteProgress = { _, _ in }
) throws -> String {
    let archive = try openArchive(file)
    if archive.index.drafter != .only {
        let unsigned = archive.beside.members.filter { !isSame($0.name, signatureName) }
        let (isThere, isSigned) = try writing(into) {
            try recover(into)
            return (try holds(into, unsigned), try holds(into, archive.beside.members))
        }
        if isSigned && hasFiles(into) { return into }
        if isThere { return try unpack(archive, into, overwrite: true, progress: progress) }
    }
    return try unpack(archive, into, overwrite: overwrite, progress: progress)
}

/// Whether a directory has these files of an archive, byte for byte.
private func holds(_ into: String, _ beside: [(name: String, value: [UInt8])]) throws -> Bool {
    try beside.allSatisfy { name, data in
        let file = joined(into, name)
        if isLink(into) || !isRegularFile(file) { return false }
        return try OpenFile(file).read(data.count + 1) == data
    }
}

/// Download an archive and unpack it; the address may be of any scheme here.
func installAddress(
    _ source: DownloadSource, into: String, overwrite: Bool = false, web: Web = Web(),
    progress: @escaping @Sendable (Int, Int) throws -> Void = { _, _ in }
) async throws -> String {
    let (directory, name) = split(into)
    let note = joined(directory, ".\(name).unpacked")
    if isNoted(note, source, into) { return into }
    let all = 2 * source.bytes
    let (part, claim) = try claimPart(source, into: into)
    defer { claim.close() }
    try await download(source, part, into: into, web: web) { done, _ in try progress(done, all) }
    let place: String
    do {
        place = try await Worker("unpack").run {
            try installFile(part, into: into, overwrite: overwrite) { done, total in
                let share = Double(done) / Double(max(1, total))
                try progress(source.bytes + Int(Double(source.bytes) * min(1, share)), all)
            }
        }
    } catch let error as OmniDraftError {
        if !ofThePlace.contains(error.fault) { unlink(part) }
        throw error
    }
    if isSame(place, into) { try writing(note) { _ = try writeAtomically(note, noteOf(source, into)) } }
    removeTree(part)
    return place
}

// Which archive a directory was unpacked from, in a file beside it: a program that asks for the same download at each
// start must not need the network. The note is lost without harm; nothing is trusted because of it.

private func isNoted(_ note: String, _ source: DownloadSource, _ into: String) -> Bool {
    guard isRegularFile(note), let data = try? OpenFile(note).read(noteBytes) else { return false }
    return (try? noteOf(source, into)) == data && hasFiles(into)  // no bundle, no note
}

private func noteOf(_ source: DownloadSource, _ into: String) throws -> [UInt8] {
    let digests = try [manifestName, indexName].map { name in
        hexOf(sha256(try OpenFile(joined(into, name)).read(BundleLimits.maxManifestBytes + 1)))
    }
    let lines = ["omnidraft.unpacked 1", source.sha256] + digests
    return Array(lines.map { $0 + "\n" }.joined().utf8)
}
