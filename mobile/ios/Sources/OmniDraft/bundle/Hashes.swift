// The files of a bundle against its manifest: hashed, or known by their stamps, and unchanged afterwards.

/// How the files of a bundle are checked.
enum Verify: Sendable {
    /// ``full`` with a public key, else ``stamp``.
    case auto
    case full
    /// Hashed only where this device has no record that all have the stamps of its last full check.
    case stamp
}

let pieceBytes = 1 << 16

private let again = "copy it again or run `omnidraft export` again"

/// SHA-256 of a file, read in pieces.
///
/// - Throws: ``FileError``: the file cannot be read.
func fileSha256(_ path: String) throws -> String {
    let file = try OpenFile(path)
    var hash = Sha256()
    while true {
        let piece = try file.read(pieceBytes)
        piece.withUnsafeBytes { hash.update($0) }
        if piece.count < pieceBytes { return hexOf(hash.finish()) }
    }
}

/// Refuse files that changed since they were hashed; call it after they are loaded.
///
/// - Throws: ``OmniDraftError/bundle(_:)`` `checksum`: a file was replaced or written.
func checkUnchanged(_ places: FilePlaces, _ stamps: ByName<Stamp>) throws {
    for (name, stamp) in stamps.members {
        let file = places.place(name)
        // A file that is gone or has become another kind has no such times.
        let times = isRegularFile(file) ? try? stampOf(file).times : nil
        if times != stamp.times { throw changed(file) }
    }
}

/// Refuse files that were written in place since they were loaded; call it before each generation.
///
/// Graphs and tables are mapped: the models would compute with what was written, and a page of a file that was cut short
/// ends the program. A file that was replaced or removed does no harm, since the old one stays.
///
/// - Throws: ``OmniDraftError/bundle(_:)`` `checksum`.
func refuseRewritten(_ places: FilePlaces, _ stamps: ByName<Stamp>) throws {
    for (name, stamp) in stamps.members {
        let file = places.place(name)
        guard let now = try? stampOf(file), now.inode == stamp.inode, now.device == stamp.device else { continue }
        if now.size == stamp.size && now.modified == stamp.modified { continue }
        throw bundleError(
            "checksum", "\(file) was written while the bundle is loaded",
            "load the bundle again, and replace the files of a bundle, but never write into them")
    }
}

func changed(_ file: String) -> OmniDraftError {
    bundleError(
        "checksum", "\(file) was changed while it was loaded", "load the bundle again when nothing writes to it")
}

/// The field `files` of a manifest as values; no file is looked at.
///
/// - Parameter files: the field; nil where it is absent.
/// - Throws: ``OmniDraftError/bundle(_:)`` `no_hash` or `outside`.
func checkFiles(_ manifest: String, _ files: JsonValue?) throws -> ByName<FileRecord> {
    guard case .object(let fields)? = files, (1...BundleLimits.maxFiles).contains(fields.count) else {
        let message = "\(manifest) lists no files, or more than \(BundleLimits.maxFiles)"
        throw bundleError("no_hash", message)
    }
    return ByName(try fields.members.map { ($0.name, try record(manifest, $0.name, $0.value)) })
}

private func record(_ manifest: String, _ name: String, _ value: JsonValue) throws -> FileRecord {
    if !isInside(name) {
        let message = "\(manifest) names \(quoted(.string(name))), which is outside the bundle"
        throw bundleError("outside", message, "do not use this bundle")
    }
    do {
        let fields = try mapping(value)
        return FileRecord(
            sha256: try hexadecimal(fields.at("sha256"), 64), bytes: try integer(fields.at("bytes"), in: 0...mostExact))
    } catch is ValueError {
        throw noHash(manifest, name)
    }
}

/// The refusal of a file that a manifest does not list rightly.
func noHash(_ manifest: String, _ name: String) -> OmniDraftError {
    bundleError("no_hash", "\(manifest) has no hash of \(quoted(.string(name)))", "run `omnidraft export` again")
}

/// Whether a path of a manifest is relative and stays below the bundle on every system.
func isInside(_ name: String) -> Bool {
    let isNamed = name.utf8.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: ":") && $0 != UInt8(ascii: "\\") }
    let hasParts = partsOf(path: name).allSatisfy { !$0.isEmpty && !isSame($0, ".") && !isSame($0, "..") }
    return isNamed && hasParts && name.utf8.count <= BundleLimits.maxPath
}

/// Hash every file that a manifest lists and that was not left out; return the stamps from before.
///
/// - Throws: ``OmniDraftError/bundle(_:)``: a file is absent, cut short or changed.
func verifyFiles(
    _ places: FilePlaces, files: ByName<FileRecord>, seal: String, verify: Verify, state: StateDirectory
) throws -> ByName<Stamp> {
    let now = nanosecondsNow()
    if verify == .stamp, let known = knownStamps(places, files),
        wasChecked(state, path: places.path, seal: seal, stamps: known)
    {
        return known
    }
    var stamps = ByName<Stamp>()
    for (name, record) in files.members where !places.isLeftOut(name) {
        stamps[name] = try verified(places, name, record)
    }
    rememberCheck(state, path: places.path, seal: seal, stamps: stamps, now: now)
    return stamps
}

private func verified(_ places: FilePlaces, _ name: String, _ record: FileRecord) throws -> Stamp {
    do {
        try refuseLinks(places.links(name))
        return try verifyFile(places.place(name), record, places.remedyFor(name))
    } catch let error as FileError {
        let message = "\(quoted(.string(name))) of \(places.path) cannot be read (\(reason(error)))"
        throw bundleError("missing", message, places.remedyFor(name))
    }
}

/// The stamp of each file; nil where one is not as it must be, which the full check then names.
private func knownStamps(_ places: FilePlaces, _ files: ByName<FileRecord>) -> ByName<Stamp>? {
    var stamps = ByName<Stamp>()
    for (name, record) in files.members where !places.isLeftOut(name) {
        let file = places.place(name)
        if places.links(name).contains(where: isLink) || !isRegularFile(file) { return nil }
        guard let stamp = try? stampOf(file), stamp.size == record.bytes else { return nil }
        stamps[name] = stamp
    }
    return stamps
}

private func verifyFile(_ file: String, _ record: FileRecord, _ remedy: String) throws -> Stamp {
    if !isRegularFile(file) { throw bundleError("missing", "\(file) is missing", remedy) }
    writeBack(file)
    let stamp = try stampOf(file)
    if stamp.size != record.bytes {
        let message = "\(file) has \(stamp.size) bytes instead of \(record.bytes)"
        throw bundleError("size", message, "it was cut short or changed: \(again)")
    }
    if try !isSame(fileSha256(file), record.sha256) {
        throw bundleError("checksum", "\(file) was changed (its SHA-256 does not match)", again)
    }
    return stamp
}

/// Refuse a link on the way to a file of a bundle: it leads outside, or to a file that can change.
private func refuseLinks(_ paths: [String]) throws {
    for path in paths where isLink(path) {
        let message = "\(path) is a link, and the files of a bundle are read from inside the bundle only"
        throw bundleError("outside", message, "copy the files themselves, for example with `cp -RL`")
    }
}
