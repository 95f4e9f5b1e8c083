import Foundation

// Write a file so that a reader finds the old file or the new file, whole, even if the writer is killed.

private let longestName = 255 - "..0123456789abcdef.tmp".utf8.count  // so that the temporary name fits a directory too
private let staleSeconds = 60.0  // no write takes that long, so the writer of an older leftover was killed

func split(_ path: String) -> (directory: String, name: String) {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return (".", path) }
    let directory = String(path[..<slash])
    return (directory.isEmpty ? "/" : directory, String(path[path.utf8.index(after: slash)...]))
}

func joined(_ directory: String, _ name: String) -> String {
    directory.hasSuffix("/") ? directory + name : "\(directory)/\(name)"
}

/// The file that a path leads to, through links, if a file can be written or replaced there.
///
/// - Throws: ``FileError``: no file can be written there.
func placeOf(_ path: String) throws -> String {
    if path.utf8.contains(0) || path.isEmpty { throw FileError("no file can have that name") }
    var place = path
    if let real = realpath(path, nil) {
        place = String(cString: real)
        free(real)
        var status = stat()
        if stat(place, &status) != 0 { throw systemError(errno) }
        if status.st_mode & S_IFMT == S_IFDIR { throw FileError("it is a directory") }
        if status.st_mode & S_IFMT != S_IFREG { throw FileError("it is not a regular file") }
        if access(place, R_OK | W_OK) != 0 { throw FileError("it may not be read and written") }
    } else if let target = linkTarget(path) {
        place = target.hasPrefix("/") ? target : joined(split(path).directory, target)
    }
    let (directory, name) = split(place)
    if !isDirectory(directory) { throw FileError("there is no directory \(directory): make it first") }
    if access(directory, W_OK | X_OK) != 0 { throw FileError("the directory \(directory) may not be written") }
    if name.utf8.count > longestName { throw FileError("its name is too long") }
    if name.isEmpty || name == "." || name == ".." { throw FileError("no file can have that name") }
    return place
}

/// The mode of what a path leads to, with its kind; nil where nothing is there.
private func modeOf(_ path: String, followsLinks: Bool = true) -> mode_t? {
    var status = stat()
    return (followsLinks ? stat(path, &status) : lstat(path, &status)) == 0 ? status.st_mode : nil
}

/// Whether a path leads to a directory, links followed.
func isDirectory(_ path: String) -> Bool { modeOf(path).map { $0 & S_IFMT } == S_IFDIR }

/// Whether a path leads to a regular file, links followed.
func isRegularFile(_ path: String) -> Bool { !path.utf8.contains(0) && modeOf(path).map { $0 & S_IFMT } == S_IFREG }

/// Whether a path leads to anything, links followed.
func exists(_ path: String) -> Bool { modeOf(path) != nil }

func isLink(_ path: String) -> Bool { modeOf(path, followsLinks: false).map { $0 & S_IFMT } == S_IFLNK }

private func linkTarget(_ path: String) -> String? {
    let most = 4096
    var buffer = [CChar](repeating: 0, count: most)
    let count = readlink(path, &buffer, most)
    if count <= 0 || count == most { return nil }
    return String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
}

/// Replace a file: write a temporary one beside it, flush it to the disk, rename it, flush the directory.
///
/// A link is written through. A new file is its owner's alone; a file that is replaced keeps its permissions. Leftovers of
/// killed writers are removed; they are named `.NAME.<random>.tmp` and are harmless.
///
/// - Parameter data: the whole content.
/// - Returns: the new name of the old file; nil if there is none.
/// - Throws: ``FileError``: the disk is full, or the file cannot be written; the old file is whole.
@discardableResult
func writeAtomically(_ path: String, _ data: [UInt8], keep: Bool = false, shared: Bool = false) throws -> String? {
    let place = try placeOf(path)
    let (directory, name) = split(place)
    let temporary = joined(directory, ".\(name).\(randomHex(8)).tmp")
    var kept: String?
    do {
        try writeNew(temporary, data, mode: modeOf(place).map { $0 & 0o777 } ?? (shared ? 0o666 & ~mask() : 0o600))
        if keep && exists(place) {
            let free = try freeName(place)
            try renameFile(place, free)
            kept = free
        }
        try renameFile(temporary, place)
    } catch {
        unlink(temporary)
        throw error
    }
    syncDirectory(directory)
    removeLeftovers(place, olderThan: staleSeconds)
    return kept
}

/// Writes and flushes a file that must not exist.
func writeNew(_ path: String, _ data: [UInt8], mode: mode_t) throws {
    // O_EXCL: never write through a link that another program made.
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    if descriptor < 0 { throw systemError(errno) }
    defer { close(descriptor) }
    if fchmod(descriptor, mode) != 0 && errno != ENOTSUP { throw systemError(errno) }
    try writeAll(descriptor, data)
    try flush(descriptor)
}

func writeAll(_ descriptor: Int32, _ data: [UInt8]) throws {
    try data.withUnsafeBytes { buffer in
        var done = 0
        while done < buffer.count {
            let rest = UnsafeRawBufferPointer(rebasing: buffer[done...])
            let count = write(descriptor, rest.baseAddress, rest.count)
            if count < 0 && errno == EINTR { continue }
            if count < 0 { throw systemError(errno) }
            done += count
        }
    }
}

/// Flushes a file to the disk. On Apple's systems `fsync` may leave data in the drive's cache.
func flush(_ descriptor: Int32) throws {
    #if canImport(Darwin)
        if fcntl(descriptor, F_FULLFSYNC) == 0 { return }
    #endif
    if fsync(descriptor) != 0 { throw systemError(errno) }
}

/// Renames a file over another one in one step.
func renameFile(_ from: String, _ to: String) throws {
    if rename(from, to) != 0 { throw systemError(errno) }
}

private func mask() -> mode_t {
    let mask = umask(0o077)
    umask(mask)
    return mask
}

/// A free name beside a file; an empty file is made under it, so that no other writer takes it.
private func freeName(_ place: String) throws -> String {
    var number = 1
    while true {
        let name = "\(place).refused" + (number > 1 ? "-\(number)" : "")
        let descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor >= 0 {
            close(descriptor)
            return name
        }
        if errno != EEXIST { throw systemError(errno) }
        number += 1
    }
}

/// The names in a directory, ascending by their bytes; none where it cannot be read.
func namesIn(_ directory: String) -> [String] {
    guard let stream = opendir(directory) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name != "." && name != ".." { names.append(name) }
    }
    return names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
}

/// Remove the temporary files of killed writers of a path, and return their number.
///
/// - Parameter olderThan: seconds since the last change; a younger file may belong to a running writer.
@discardableResult
func removeLeftovers(_ place: String, olderThan: Double = 0) -> Int {
    let (directory, name) = split(place)
    let left = namesIn(directory).filter {
        $0.hasPrefix(".\(name).") && $0.hasSuffix(".tmp") && $0.utf8.count == name.utf8.count + 22
    }
    return left.count { each in
        let path = joined(directory, each)
        var status = stat()
        if lstat(path, &status) != 0 || status.st_mode & S_IFMT == S_IFDIR { return false }
        #if canImport(Darwin)
            let changed = status.st_mtimespec
        #else
            let changed = status.st_mtim
        #endif
        let age = Double(time(nil) - changed.tv_sec)
        return age >= olderThan && unlink(path) == 0
    }
}

/// Flush a directory, so that a rename in it lasts; where the platform cannot open one, nothing is to be done.
func syncDirectory(_ directory: String) {
    let descriptor = open(directory, O_RDONLY | O_CLOEXEC)
    if descriptor < 0 { return }
    fsync(descriptor)
    close(descriptor)
}
