// Files of a bundle as they are used: the bytes that were hashed, and graphs with weights in the bundle.

/// Bytes of the graph of a training step, whose weights are beside it.
let mostStepBytes = 1 << 28

/// The bytes of a file, which have the size and hash of the manifest at the moment when they are used.
///
/// - Parameter most: bytes at most.
func checkedBytes(_ bundle: ModelBundle, _ name: String, most: Int) throws -> [UInt8] {
    let file = try bundle.file(name)
    guard let record = bundle.files[name] else { throw noHash(bundle.path, name) }
    let data = try onFileError(of: try readFile(file, most: min(most, record.bytes))) {
        bundleError("unreadable", "\(file) cannot be read (\($0))")
    }
    if data.count != record.bytes || !isSame(hexOf(sha256(data)), record.sha256) { throw changed(file) }
    return data
}

/// The path of a graph whose weights are all in files that the manifest lists.
///
/// onnxruntime opens what a graph names, and older versions also outside of the bundle. The caller calls
/// ``checkUnchanged(_:_:)`` after the graph is loaded.
func checkedGraph(_ bundle: ModelBundle, _ name: String) throws -> String {
    let file = try bundle.file(name)
    let data = try onFileError(of: try mapFile(file)) { bundleError("unreadable", "\(file) cannot be read (\($0))") }
    let folder = Array(partsOf(path: name).dropLast())
    try checkPlaces(bundle, name, placesIn(file, data), folder: folder, opened: split(file).directory)
    return file
}

/// The bytes of the graph of a training step, whose weights are all in files that the manifest lists.
///
/// - Throws: ``OmniDraftError/bundle(_:)``: see ``checkedBytes(_:_:most:)`` and ``checkedGraph(_:_:)``.
func checkedStep(_ bundle: ModelBundle, _ name: String, folder: String) throws -> [UInt8] {
    let file = try bundle.file(name)
    let parts = partsOf(path: folder).filter { !$0.isEmpty && !isSame($0, ".") }
    if begins(folder, with: "/") || parts.contains(where: { isSame($0, "..") }) || folder.utf8.contains(0x5c) {
        throw refused(file, "its weights are in \(quoted(.string(folder))), which is outside the bundle")
    }
    let data = try checkedBytes(bundle, name, most: mostStepBytes)
    let opened = parts.isEmpty ? bundle.path : try bundle.file(parts.joined(separator: "/"))
    try checkPlaces(bundle, name, placesIn(file, Bytes(data)), folder: parts, opened: opened)
    return data
}

private func placesIn(_ file: String, _ graph: Bytes) throws -> [String] {
    do {
        return try externalFiles(graph)
    } catch let error as ValueError {
        throw refused(file, error.message, error.fault.isEmpty ? "outside" : error.fault)
    }
}

/// Refuse weights that are not in files that the manifest lists, or that were left out.
private func checkPlaces(
    _ bundle: ModelBundle, _ name: String, _ places: [String], folder: [String], opened: String
) throws {
    for place in places {
        let listed = (folder + [place]).joined(separator: "/")
        let why = "its weights are in \(quoted(.string(place)))"
        if !bundle.files.has(listed) {
            throw refused(try bundle.file(name), why + ", which the manifest does not list")
        }
        if try !isSame(bundle.file(listed), joined(opened, place)) {  // the file that was hashed
            throw refused(try bundle.file(name), why + ", beside a shared drafter")
        }
    }
}

private func refused(_ file: String, _ why: String, _ fault: String = "outside") -> OmniDraftError {
    bundleError(fault, "\(file) is refused: \(why)", "do not use this bundle")
}
