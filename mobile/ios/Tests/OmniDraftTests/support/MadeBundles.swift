import Foundation
import XCTest

@testable import OmniDraft

/// Writes a file, and the directories above it.
func put(_ path: String, _ data: [UInt8]) throws {
    try makeDirectories(split(path).directory)
    try Data(data).write(to: URL(fileURLWithPath: path))
}

/// A bundle or an archive that Python made: a name in the folder that OMNIDRAFT_BUNDLES names.
func made(_ name: String) throws -> String {
    guard let bundles = ProcessInfo.processInfo.environment["OMNIDRAFT_BUNDLES"] else {
        throw XCTSkip("OMNIDRAFT_BUNDLES is not set; scripts/android/bundles.sh makes the bundles")
    }
    let path = joined(bundles, name)
    if !exists(path) { throw XCTSkip("\(path) is absent; scripts/android/bundles.sh makes it") }
    return path
}

/// The files that the manifests of the vectors list; the content of each is its name.
func writeListedFiles(_ place: String) throws {
    for name in try jsonOf("bundle/files.json").array { try put(joined(place, name.string), Array(name.string.utf8)) }
}

/// Runs `body` with a directory that holds such a bundle; files may be put beside it.
func inBundle(_ body: (String) throws -> Void) throws {
    try inDirectory { folder in
        let place = joined(folder, "bundle")
        try writeListedFiles(place)
        try put(joined(place, manifestName), fullManifest())
        try body(place)
    }
}

/// A manifest that has every field, with a right seal.
func fullManifest() throws -> [UInt8] {
    sealedManifest(Array(try readFile("\(vectorRoot)/bundle/full.body", most: 1 << 20).dropFirst()))
}

/// A manifest with a right seal.
///
/// - Parameter fields: the text behind the seal and its comma.
func sealedManifest(_ fields: [UInt8]) -> [UInt8] {
    let rest = Array("\",".utf8) + fields
    return Array("{\"seal\": \"\(hexOf(sha256(rest)))".utf8) + rest
}

/// The archive of the vectors: a small bundle, packed for a phone.
func phoneArchive() throws -> [UInt8] { try archiveBytes(base: "phone", edits: []) }

/// The archive of a vector: a base, with edits from the last to the first.
func archiveOf(_ given: JsonObject) throws -> [UInt8] {
    try archiveBytes(base: given["base"]!.string, edits: given["edits"]!.array)
}

private func archiveBytes(base: String, edits: [JsonValue]) throws -> [UInt8] {
    var data = unrolled(try jsonOf("archive/\(base).json").object["runs"]!)
    for edit in edits.reversed() {
        let (begin, end, runs) = (edit.array[0].int, edit.array[1].int, edit.array[2])
        data = Array(data[..<begin]) + unrolled(runs) + Array(data[end...])
    }
    return data
}

/// Numbers of zero bytes, and bytes as hexadecimal text.
private func unrolled(_ runs: JsonValue) -> [UInt8] {
    runs.array.flatMap { run -> [UInt8] in
        if case .integer(let count) = run { return [UInt8](repeating: 0, count: Int(count)) }
        return run.hex
    }
}

/// The files and links below a directory, with their content, by their paths.
func treeOf(_ directory: String, _ prefix: String = "") throws -> [String: [UInt8]] {
    var files: [String: [UInt8]] = [:]
    for name in namesIn(directory) {
        let path = joined(directory, name)
        if isDirectory(path) && !isLink(path) {
            for (name, data) in try treeOf(path, "\(prefix)\(name)/") { files[name] = data }
        } else {
            files[prefix + name] = try readFile(path, most: .max)
        }
    }
    return files
}

/// Reads every file of an archive and compares its hash with the manifest's.
func checkHashes(_ archive: Archive) throws {
    let data = try bytesOf(archive)
    for name in archive.files { try readChecked(archive, data: data, name: name) { _ in } }
}
