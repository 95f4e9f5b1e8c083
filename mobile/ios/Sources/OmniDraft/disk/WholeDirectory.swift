import Foundation

// Write a directory so that a reader finds the old or the new one, whole, even if the writer is killed. A kill leaves
// `.NAME.<16 hex digits>.tmp`, the unfinished directory, or `.NAME.<16 hex digits>.old`, the one that was to be replaced: the
// next writer of NAME removes the one and takes the other back. The directory of a running process is claimed.

/// Runs `write` with a temporary directory beside `out`, which is removed at the end unless it was renamed.
///
/// - Throws: ``FileError``: it cannot be made; ``ClaimError``: another process has it.
func newDirectory<T>(_ out: String, _ write: (String) throws -> T) throws -> T {
    let (directory, name) = split(out)
    try makeDirectories(directory)
    let work = joined(directory, ".\(name).\(randomHex(8)).tmp")
    let claim = try Claim(work)
    defer {
        claim.close()
        removeTree(work)
    }
    return try write(work)
}

/// Makes a directory and those above it, each its owner's alone.
func makeDirectories(_ path: String) throws {
    if isDirectory(path) { return }
    let parent = split(path).directory
    if parent != path { try makeDirectories(parent) }
    if mkdir(path, 0o700) != 0 && errno != EEXIST { throw systemError(errno) }
    if !isDirectory(path) { throw FileError("\(path) is not a directory") }
}

/// Give the complete directory its final name; an older directory is removed last.
///
/// - Throws: ``FileError``: it cannot be renamed, or another writer was faster.
func takeName(_ work: String, _ out: String, replaces: Bool = true) throws {
    let old = work.hasSuffix(".tmp") ? work.dropLast(4) + ".old" : work + ".old"
    if exists(out) {
        if !replaces { throw FileError("another process wrote it meanwhile") }
        try renameFile(out, String(old))
    }
    try renameFile(work, out)
    syncDirectory(split(out).directory)
    removeTree(String(old))
}

/// Flush a directory and those in it, the innermost first; files are flushed where they are written.
func syncTree(_ directory: String) {
    for name in namesIn(directory) {
        let path = joined(directory, name)
        if !isLink(path) && isDirectory(path) { syncTree(path) }
    }
    syncDirectory(directory)
}

/// Remove a directory and all in it; links in it are removed and not followed.
func removeTree(_ path: String) {
    if isLink(path) || !isDirectory(path) {
        unlink(path)
        return
    }
    for name in namesIn(path) { removeTree(joined(path, name)) }
    rmdir(path)
}

/// Put right what killed writers of a place left.
///
/// - Parameter out: the final place. Where it is absent, the directory that was to be replaced gets its name back.
func recover(_ out: String) throws {
    let (directory, name) = split(out)
    let left = namesIn(directory).compactMap { Leftover(directory, $0, of: name) }
    let running = Set(left.filter { $0.kind == "tmp" && !isFree($0.place) }.map(\.writer))
    for each in left where !running.contains(each.writer) {
        if each.kind == "old" && !exists(out) { try renameFile(each.place, out) } else { removeTree(each.place) }
    }
}

private struct Leftover {
    let place: String
    let writer: String
    let kind: String

    init?(_ directory: String, _ file: String, of name: String) {
        place = joined(directory, file)
        guard file.hasPrefix(".\(name)."), !isLink(place), isDirectory(place) else { return nil }
        let parts = file.dropFirst(name.count + 2).split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].utf8.count == 16, parts[0].utf8.allSatisfy({ hexDigit($0) >= 0 }) else {
            return nil
        }
        (writer, kind) = (String(parts[0]), String(parts[1]))
        if kind != "tmp" && kind != "old" { return nil }
    }
}

private func isFree(_ place: String) -> Bool {
    guard let claim = try? Claim(place) else { return false }
    claim.close()
    return true
}
