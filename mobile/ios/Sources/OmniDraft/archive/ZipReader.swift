import Foundation

// Read the entries of an archive, strictly, from the first byte to the last (spec/16-archive.md).

private let maxName = 512
private let encrypted = (1 << 0) | (1 << 6) | (1 << 13)  // flags
private let descriptor = 1 << 3
private let zip64Bytes = 20
private let mostSize: UInt64 = 1 << 53
private let slash = UInt8(ascii: "/")
private let dot = UInt8(ascii: ".")

final class ZipBytes {
    /// Bytes in all.
    let size: Int
    private let file: OpenFile

    /// - Throws: ``FileError``: the archive cannot be opened.
    init(_ path: String) throws {
        file = try OpenFile(path)
        size = file.size
    }

    /// At most `count` bytes from a place on; fewer at the end of the archive.
    ///
    /// - Throws: ``FileError``: they cannot be read.
    func read(_ at: Int, _ count: Int) throws -> [UInt8] {
        let most = max(0, min(count, size - at))
        return try [UInt8](unsafeUninitializedCapacity: most) { buffer, filled in
            while filled < most, let start = buffer.baseAddress {
                let count = pread(file.descriptor, start + filled, most - filled, off_t(at + filled))
                if count < 0 && errno == EINTR { continue }
                if count < 0 { throw systemError(errno) }
                if count == 0 { break }
                filled += count
            }
        }
    }
}

/// Whether an entry may have a name: relative, ASCII, and a file on every system.
func isEntryName(_ name: String) -> Bool {
    if name.utf8.count > maxName || !isFileName(name) { return false }
    return lowerCase(name).split(separator: slash).allSatisfy { $0.last != dot && !isDevice($0) }
}

/// Whether Windows keeps a name, in lower case, for a device, with any ending.
private func isDevice(_ part: ArraySlice<UInt8>) -> Bool {
    let name = Array(part.prefix { $0 != dot })
    let isNumbered = name.count == 4 && name[3] >= 0x30 && name[3] <= 0x39
    if isNumbered { return ["com", "lpt"].contains { name[..<3].elementsEqual($0.utf8) } }
    return ["con", "prn", "aux", "nul"].contains { name.elementsEqual($0.utf8) }
}

/// ASCII letters in lower case.
private func lowerCase(_ name: String) -> [UInt8] { name.utf8.map { $0 >= 0x41 && $0 <= 0x5a ? $0 + 0x20 : $0 } }

/// The entries of an archive, in order. The bytes of the files are not read.
///
/// - Throws: ``ValueError`` with the name of the first fault; ``FileError``: the archive cannot be read.
func readEntries(_ data: ZipBytes) throws -> [ArchiveEntry] {
    var walk = ZipWalk(data)
    while try walk.next() != nil {}
    return walk.entries
}

/// A walk through an archive, from entry to entry.
struct ZipWalk {
    private(set) var entries: [ArchiveEntry] = []
    private let data: ZipBytes
    private var names: Set<[UInt8]> = []
    private var at = 0

    init(_ data: ZipBytes) { self.data = data }

    /// The next entry; nil behind the last one, where the rest of the archive is its directory.
    ///
    /// - Throws: ``ValueError`` with the name of the first fault; ``FileError``: the archive cannot be read.
    mutating func next() throws -> ArchiveEntry? {
        let start = try data.read(at, zipLocalBytes)
        if !entries.isEmpty && start.starts(with: zipCentral) {
            try checkDirectory()
            return nil
        }
        try checkStart(start)
        let entry = try entry(start)
        try checkName(entry.name)
        if entries.count == maxArchiveEntries {
            throw ValueError("it has more than \(maxArchiveEntries) entries", fault: "limits")
        }
        if entry.end > data.size {
            let message = "\(entry.name) ends at byte \(entry.end) and the archive at \(data.size)"
            throw ValueError(message, fault: "truncated")
        }
        entries.append(entry)
        at = entry.end
        return entry
    }

    private func checkDirectory() throws {
        let expected = centralDirectory(entries, at: at)
        let rest = try data.read(at, expected.count + 1)
        if rest == expected { return }
        if expected.starts(with: rest) { throw ValueError("its directory is cut short", fault: "truncated") }
        if rest.starts(with: expected) {
            throw ValueError("it has bytes behind its end", fault: "trailing_bytes")
        }
        throw ValueError("its directory differs from its entries", fault: "directory")
    }

    /// Check the first four bytes of a local header.
    private func checkStart(_ start: [UInt8]) throws {
        if start.starts(with: zipLocal) { return }
        let first = start.prefix(zipLocal.count)
        if entries.isEmpty && !zipLocal.starts(with: first) {
            throw ValueError("it is not an archive of a bundle", fault: "not_an_archive")
        }
        if first.count < zipLocal.count { throw ValueError("it is cut short", fault: "truncated") }
        throw ValueError("bytes follow an entry that are not an entry", fault: "header")
    }

    /// The entry whose local header begins at `at`.
    private func entry(_ start: [UInt8]) throws -> ArchiveEntry {
        if start.count < zipLocalBytes { throw ValueError("a header is cut short", fault: "truncated") }
        let fixed = Bytes(start)
        try checkKind(fixed)
        let nameBytes = fixed.u16(26)
        let extraBytes = fixed.u16(28)
        if nameBytes < 1 || nameBytes > maxName {
            throw ValueError("a name has \(nameBytes) bytes", fault: "outside")
        }
        let rest = try data.read(at + zipLocalBytes, nameBytes + extraBytes)
        if rest.count < nameBytes + extraBytes { throw ValueError("a header is cut short", fault: "truncated") }
        let name = String(decoding: rest[..<nameBytes], as: UTF8.self)
        if !isEntryName(name) {
            let message = "\(quoted(.string(name))) is not a name of a file in a bundle"
            throw ValueError(message, fault: "outside")
        }
        let extra = Array(rest[nameBytes...])
        let size = try sizeOf(fixed.u32(22), Bytes(extra))
        let entry = ArchiveEntry(name: name, at: at, size: size, crc32: UInt32(truncatingIfNeeded: fixed.u32(14)))
        try compare(entry, start, extra)
        return entry
    }

    private func checkKind(_ fixed: Bytes) throws {
        let flags = fixed.u16(6)
        let method = fixed.u16(8)
        if flags & encrypted != 0 { throw ValueError("an entry is encrypted", fault: "encrypted") }
        if flags & descriptor != 0 { throw ValueError("the size of an entry is behind it", fault: "descriptor") }
        if method != 0 {
            throw ValueError("an entry is compressed by method \(method)", fault: "compressed")
        }
        if fixed.u32(18) != fixed.u32(22) { throw ValueError("an entry has two sizes", fault: "header") }
    }

    /// Refuse a name that is taken on some system: in other case, or as a directory. Directories are kept with `/`.
    private mutating func checkName(_ name: String) throws {
        let folded = lowerCase(name)
        let above = folded.indices.filter { folded[$0] == slash }.map { Array(folded[..<$0]) }
        if names.contains(folded) || names.contains(folded + [slash]) || above.contains(where: names.contains) {
            throw ValueError("two entries are named \(quoted(.string(name)))", fault: "duplicate")
        }
        names.insert(folded)
        for directory in above { names.insert(directory + [slash]) }
    }
}

/// The size of an entry: of its header, or of the zip64 field where 32 bits do not hold it.
private func sizeOf(_ length: Int, _ extra: Bytes) throws -> Int {
    if length != zipFull {
        if extra.count >= 2 && extra.u16(0) == 1 {
            throw ValueError("an entry has a zip64 field that it does not need", fault: "zip64")
        }
        return length
    }
    if extra.count < zip64Bytes || extra.u16(0) != 1 || extra.u16(2) != zip64Bytes - 4 {
        throw ValueError("an entry of 4 GiB has no zip64 field", fault: "zip64")
    }
    let size = extra.u64(4)
    if size != extra.u64(12) || size < UInt64(zipFull) || size >= mostSize {
        throw ValueError("a zip64 field has the sizes \(size) and \(extra.u64(12))", fault: "zip64")
    }
    return Int(size)
}

/// Compare a header with the one that the entry must have.
private func compare(_ entry: ArchiveEntry, _ fixed: [UInt8], _ extra: [UInt8]) throws {
    let expected = entry.localHeader()
    if Array(expected[(zipLocalBytes + entry.name.utf8.count)...]) != extra {
        throw ValueError("\(entry.name) is not aligned as it must be", fault: "alignment")
    }
    if Array(expected[..<zipLocalBytes]) != fixed {
        throw ValueError("the header of \(entry.name) has another value than it must have", fault: "header")
    }
}
