// The bytes of a ZIP file around its entries, which names, sizes and checksums decide (spec/16-archive.md).
//
// There is one way to write an archive. So a reader computes these bytes and compares.

/// Bytes; a multiple of the pages of every phone.
let zipAlignment = 1 << 14
/// What a local header begins with.
let zipLocal: [UInt8] = [0x50, 0x4b, 3, 4]
/// What an entry of the directory begins with.
let zipCentral: [UInt8] = [0x50, 0x4b, 1, 2]
/// Bytes of a local header, without name and extra field.
let zipLocalBytes = 30
/// The files of a manifest, the manifest, its signature and the index.
let maxArchiveEntries = 1027
/// The value stands in the zip64 field.
let zipFull = 0xffff_ffff

private let largeEnd: [UInt8] = [0x50, 0x4b, 6, 6]
private let largePlace: [UInt8] = [0x50, 0x4b, 6, 7]
private let endMark: [UInt8] = [0x50, 0x4b, 5, 6]
private let zip64 = 0x0001  // kinds of extra fields
private let padding = 0xd935  // Android's
private let plain = 10  // version that is needed to extract
private let large = 45
private let date = 0x0021  // 1 January 1980

/// One file in an archive.
struct ArchiveEntry: Sendable, Equatable {
    /// Its path, in ASCII.
    let name: String
    /// The byte at which its local header begins; below 2^63 - 2^54.
    let at: Int
    /// Bytes of the file, below 2^53.
    let size: Int
    /// Of its bytes.
    let crc32: UInt32

    /// The first byte of the file, a multiple of ``zipAlignment``.
    var begin: Int {
        let least = at + zipLocalBytes + name.utf8.count + largeField.count + 6
        return (least + zipAlignment - 1) / zipAlignment * zipAlignment
    }

    /// The byte behind the last one.
    var end: Int { begin + size }

    /// The extra field of a size that 32 bits do not hold; empty for others.
    private var largeField: [UInt8] {
        if size < zipFull { return [] }
        var out = ByteWriter()
        out.u16(zip64)
        out.u16(16)
        out.u64(UInt64(size))
        out.u64(UInt64(size))
        return out.bytes
    }

    /// The fields that both headers have, from `flags` to the length of the name.
    private func putFields(_ out: inout ByteWriter) {
        for value in [0, 0, 0, date] { out.u16(value) }
        out.u32(Int(crc32))
        out.u32(min(size, zipFull))
        out.u32(min(size, zipFull))
        out.u16(name.utf8.count)
    }

    /// The bytes before the file, with padding.
    func localHeader() -> [UInt8] {
        let field = largeField
        let count = begin - at - zipLocalBytes - name.utf8.count - field.count - 4
        var out = ByteWriter()
        out.put(zipLocal)
        out.u16(size >= zipFull ? large : plain)
        putFields(&out)
        out.u16(field.count + 4 + count)
        out.put(name.utf8)
        out.put(field)
        out.u16(padding)
        out.u16(count)
        out.u16(zipAlignment)
        out.put([UInt8](repeating: 0, count: count - 2))
        return out.bytes
    }

    /// The entry of the central directory.
    func centralHeader() -> [UInt8] {
        var values = ByteWriter()
        values.put(largeField.dropFirst(4))
        if at >= zipFull { values.u64(UInt64(at)) }
        var extra = ByteWriter()
        if !values.bytes.isEmpty {
            extra.u16(zip64)
            extra.u16(values.bytes.count)
            extra.put(values.bytes)
        }
        let version = extra.bytes.isEmpty ? plain : large
        var out = ByteWriter()
        out.put(zipCentral)
        out.u16(version)
        out.u16(version)
        putFields(&out)
        out.u16(extra.bytes.count)
        out.put([UInt8](repeating: 0, count: 10))
        out.u32(min(at, zipFull))
        out.put(name.utf8)
        out.put(extra.bytes)
        return out.bytes
    }
}

/// The bytes behind the last file, to the end of the archive.
///
/// - Parameter entries: in order.
func centralDirectory(_ entries: [ArchiveEntry], at: Int) -> [UInt8] {
    var out = ByteWriter()
    for entry in entries { out.put(entry.centralHeader()) }
    let size = out.bytes.count
    let count = entries.count
    if at >= zipFull {
        out.put(largeEnd)
        out.u64(44)
        out.u16(large)
        out.u16(large)
        out.u32(0)
        out.u32(0)
        for value in [count, count, size, at] { out.u64(UInt64(value)) }
        out.put(largePlace)
        out.u32(0)
        out.u64(UInt64(at + size))
        out.u32(1)
    }
    out.put(endMark)
    for value in [0, 0, count, count] { out.u16(value) }
    out.u32(size)
    out.u32(min(at, zipFull))
    out.u16(0)
    return out.bytes
}
