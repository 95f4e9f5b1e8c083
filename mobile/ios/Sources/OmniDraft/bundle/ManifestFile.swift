// The file manifest.json: its bytes, its seal, and JSON in bounds (spec/03-bundle.md).

let manifestName = "manifest.json"

let bundleFormat = "omnidraft.bundle"
private let formatVersion = 3
private let before = Array("{\"seal\": \"".utf8)
private let sealed = before.count + 64  // what is sealed begins with the quotation mark behind the digits
let exportAgain = "run `omnidraft export` again"

func bundleError(_ fault: String, _ message: String, _ remedy: String = exportAgain) -> OmniDraftError {
    .bundle(Refusal(fault: fault, message: message, remedy: remedy))
}

/// The bytes of the manifest in a directory.
///
/// - Throws: ``OmniDraftError/bundle(_:)`` `no_bundle` or `unreadable`.
func readManifest(_ path: String) throws -> [UInt8] {
    if isRegularFile(path) {
        let message = "\(path) is a file, and graphs are run from a bundle's directory"
        throw bundleError("no_bundle", message, "if it is an archive, unpack it with OmniDraft.unpack")
    }
    if path.utf8.contains(0) || !isDirectory(path) {
        let remedy = "unpack a bundle there, or make one with `omnidraft export`"
        throw bundleError("no_bundle", "no bundle at \(path)", remedy)
    }
    let file = joined(path, manifestName)
    do {
        return try readFile(file, most: BundleLimits.maxManifestBytes)
    } catch let error as FileError {
        if error.isAbsent {
            let message = "\(path) has no \(manifestName), so it is not a bundle"
            throw bundleError("no_bundle", message, "make one with `omnidraft export`")
        }
        throw bundleError("unreadable", "\(file) is not readable (\(reason(error)))")
    }
}

/// The fields of a manifest, their values unchecked.
///
/// - Throws: ``OmniDraftError/bundle(_:)`` `unreadable`, `not_a_bundle`, `version` or `seal`.
func parseManifest(_ path: String, _ data: [UInt8]) throws -> JsonObject {
    let file = joined(path, manifestName)
    let value: JsonValue
    do {
        value = try parseJson(data)
    } catch let error as ValueError {
        throw bundleError("unreadable", "\(file) is not readable (\(error.message))")
    }
    guard case .object(let object) = value, object["format"] == .string(bundleFormat) else {
        throw bundleError(
            "not_a_bundle", "\(file) is not an \(bundleFormat) manifest", "make one with `omnidraft export`")
    }
    if object["version"] != .int(formatVersion) {
        let version = quoted(object["version"] ?? .null)
        let message = "\(path) is a bundle of version \(version) and this omnidraft reads version \(formatVersion)"
        throw bundleError("version", message, "\(exportAgain) or install the omnidraft that wrote it")
    }
    if !isSealed(data) {
        let message = "\(file) was changed after it was written (its seal does not match)"
        throw bundleError("seal", message)
    }
    return object
}

private func isSealed(_ data: [UInt8]) -> Bool {
    if data.count < sealed + 2 { return false }
    return data.starts(with: before + Array(sealOf(data).utf8) + Array("\",".utf8))
}

/// The seal that belongs into a manifest: the SHA-256 of all bytes after the digits of the seal.
func sealOf(_ data: [UInt8]) -> String {
    var hash = Sha256()
    data.withUnsafeBytes { bytes in
        if bytes.count > sealed { hash.update(UnsafeRawBufferPointer(rebasing: bytes[sealed...])) }
    }
    return hexOf(hash.finish())
}
