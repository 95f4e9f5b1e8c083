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
        return ByteWriter().u16(zip64).u16(16).u64(UInt64(size)).u64(UInt64(size)).bytes
    }

    /// The fields that both headers have, from `flags` to the length of the name.
    private func putFields(_ out: ByteWriter) -> ByteWriter {
        out.u16(0).u16(0).u16(0).u16(date).u32(Int(crc32))
        return out.u32(min(size, zipFull)).u32(min(size, zipFull)).u16(name.utf8.count)
    }

    /// The bytes before the file, with padding.
    func localHeader() -> [UInt8] {
        let field = largeField
        let count = begin - at - zipLocalBytes - name.utf8.count - field.count - 4
        let out = ByteWriter().put(zipLocal).u16(size >= zipFull ? large : plain)
        putFields(out).u16(field.count + 4 + count).put(name.utf8).put(field)
        return out.u16(padding).u16(count).u16(zipAlignment).put(repeatElement(0, count: count - 2)).bytes
    }

    /// The entry of the central directory.
    func centralHeader() -> [UInt8] {
        let values = ByteWriter().put(largeField.dropFirst(4))
        if at >= zipFull { values.u64(UInt64(at)) }
        let extra = ByteWriter()
        if !values.bytes.isEmpty { extra.u16(zip64).u16(values.bytes.count).put(values.bytes) }
        let version = extra.bytes.isEmpty ? plain : large
        let out = putFields(ByteWriter().put(zipCentral).u16(version).u16(version)).u16(extra.bytes.count)
        out.put(repeatElement(0, count: 10)).u32(min(at, zipFull))
        return out.put(name.utf8).put(extra.bytes).bytes
    }
}

/// The bytes behind the last file, to the end of the archive.
///
/// - Parameter entries: in order.
func centralDirectory(_ entries: [ArchiveEntry], at: Int) -> [UInt8] {
    let out = ByteWriter()
    for entry in entries { out.put(entry.centralHeader()) }
    let size = out.bytes.count
    let count = entries.count
    if at >= zipFull {
        out.put(largeEnd).u64(44).u16(large).u16(large).u32(0).u32(0)
        for value in [count, count, size, at] { out.u64(UInt64(value)) }
        out.put(largePlace).u32(0).u64(UInt64(at + size)).u32(1)
    }
    return out.put(endMark).u16(0).u16(0).u16(count).u16(count).u32(size).u32(min(at, zipFull)).u16(0).bytes
}
