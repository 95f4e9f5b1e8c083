import Foundation

// The address of a drafter that bundles share: a digest of its files, from the manifest alone
// (spec/16-archive.md, "A shared drafter").

/// The files of the drafter begin with this.
let drafterPrefix = "drafter/"
/// The directory beside the bundles.
let sharedName = "drafters"

private let header = "omnidraft.drafter 1\n"

/// Size and hash of a file in a manifest.
struct FileRecord: Sendable, Equatable {
    /// 64 hexadecimal digits.
    let sha256: String
    /// 0 to 2^53 - 1.
    let bytes: Int
}

/// SHA-256 over a line for each file below `drafter/`, in the order of the bytes of their names.
func drafterAddress(_ files: ByName<FileRecord>) -> String {
    var lines = header
    for (name, record) in files.sorted where begins(name, with: drafterPrefix) {
        lines += "\(record.sha256) \(record.bytes) \(name)\n"
    }
    return hexOf(sha256(Array(lines.utf8)))
}

/// The directory of a shared drafter: beside the directory that a bundle really is in.
///
/// - Throws: ``FileError``: the path of the bundle cannot be followed.
func sharedPlace(_ bundle: String, _ address: String) throws -> String {
    joined(joined(split(try realPath(bundle)).directory, sharedName), address)
}

/// The path of a file that exists, without links.
func realPath(_ path: String) throws -> String {
    if path.utf8.contains(0) { throw FileError("no file can have that name") }
    guard let real = realpath(path, nil) else { throw systemError(errno) }
    defer { free(real) }
    return String(cString: real)
}
