// Bytes of a file, in memory or mapped, read in place; numbers in little-endian order, CRC-32 and hexadecimal text.

/// A part of some bytes that do not change: a mapped file or an array, shared without a copy.
///
/// The functions that read compare the place with the length and stop the program outside it: a caller compares a place
/// that comes from a file with ``count`` first.
struct Bytes: @unchecked Sendable {
    /// What keeps the memory alive; it is never written after its first use here.
    private let owner: AnyObject
    private let base: UnsafeRawPointer
    let count: Int

    init(_ array: [UInt8]) {
        let owner = OwnedBytes(array)
        self.owner = owner
        base = UnsafeRawPointer(owner.memory)
        count = array.count
    }

    /// Memory of `owner`, which must not change while this value lives.
    init(owner: AnyObject, base: UnsafeRawPointer, count: Int) {
        self.owner = owner
        self.base = base
        self.count = count
    }

    func part(_ from: Int, _ until: Int) -> Bytes {
        precondition(from >= 0 && from <= until && until <= count)
        return Bytes(owner: owner, base: base + from, count: until - from)
    }

    func array(_ from: Int = 0, _ until: Int? = nil) -> [UInt8] {
        let end = until ?? count
        precondition(from >= 0 && from <= end && end <= count)
        return [UInt8](UnsafeRawBufferPointer(start: base + from, count: end - from))
    }

    func withUnsafeBytes<T>(_ body: (UnsafeRawBufferPointer) throws -> T) rethrows -> T {
        try withExtendedLifetime(owner) { try body(UnsafeRawBufferPointer(start: base, count: count)) }
    }

    subscript(_ at: Int) -> UInt8 {
        precondition(at >= 0 && at < count)
        return base.load(fromByteOffset: at, as: UInt8.self)
    }

    func u8(_ at: Int) -> Int { Int(self[at]) }
    func u16(_ at: Int) -> Int { Int(load(at, UInt16.self)) }
    func u32(_ at: Int) -> Int { Int(load(at, UInt32.self)) }
    func i32(_ at: Int) -> Int32 { Int32(bitPattern: load(at, UInt32.self)) }
    func u64(_ at: Int) -> UInt64 { load(at, UInt64.self) }
    func f32(_ at: Int) -> Float { Float(bitPattern: load(at, UInt32.self)) }

    private func load<T: FixedWidthInteger>(_ at: Int, _ type: T.Type) -> T {
        precondition(at >= 0 && at <= count - MemoryLayout<T>.size)
        return T(littleEndian: base.loadUnaligned(fromByteOffset: at, as: T.self))
    }
}

private final class OwnedBytes {
    let memory: UnsafeMutablePointer<UInt8>

    init(_ array: [UInt8]) {
        memory = .allocate(capacity: max(1, array.count))
        memory.initialize(from: array, count: array.count)
    }

    deinit { memory.deallocate() }
}

/// Bytes that grow, with numbers in little-endian order. Each function gives the writer again.
final class ByteWriter {
    private(set) var bytes: [UInt8] = []

    @discardableResult func u8(_ value: Int) -> ByteWriter { number(UInt8(truncatingIfNeeded: value)) }
    @discardableResult func u16(_ value: Int) -> ByteWriter { number(UInt16(truncatingIfNeeded: value)) }
    @discardableResult func u32(_ value: Int) -> ByteWriter { number(UInt32(truncatingIfNeeded: value)) }
    @discardableResult func i32(_ value: Int32) -> ByteWriter { number(value) }
    @discardableResult func u64(_ value: UInt64) -> ByteWriter { number(value) }
    @discardableResult func f32(_ value: Float) -> ByteWriter { number(value.bitPattern) }

    @discardableResult func put(_ data: some Sequence<UInt8>) -> ByteWriter {
        bytes.append(contentsOf: data)
        return self
    }

    private func number(_ value: some FixedWidthInteger) -> ByteWriter {
        withUnsafeBytes(of: value.littleEndian) { put($0) }
    }
}

/// The CRC-32 (as in zlib) of some bytes, which may follow others whose CRC-32 is `sum`.
func crc32(_ data: some Sequence<UInt8>, after sum: UInt32 = 0) -> UInt32 {
    var sum = ~sum
    for byte in data { sum = crcTable[Int((sum ^ UInt32(byte)) & 0xff)] ^ (sum >> 8) }
    return ~sum
}

private let crcTable: [UInt32] = (0..<256).map { index in
    (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? 0xedb8_8320 ^ (value >> 1) : value >> 1 }
}

/// Bytes as lower-case hexadecimal text.
func hexOf(_ data: some Sequence<UInt8>) -> String {
    var text: [UInt8] = []
    for byte in data {
        text.append(hexDigits[Int(byte >> 4)])
        text.append(hexDigits[Int(byte & 15)])
    }
    return String(decoding: text, as: UTF8.self)
}

/// The bytes of hexadecimal text.
///
/// - Throws: ``ValueError``: an odd number of characters, or one that is no digit.
func bytesOf(hex: String) throws -> [UInt8] {
    let digits = hex.utf8.map(hexDigit)
    if digits.count % 2 != 0 || digits.contains(-1) { throw ValueError("\(quoted(.string(hex))) is not hexadecimal") }
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}

/// The value of a hexadecimal digit; -1 if it is none.
func hexDigit(_ char: UInt8) -> Int {
    switch char {
    case 0x30...0x39: return Int(char) - 0x30
    case 0x61...0x66: return Int(char) - 0x61 + 10
    case 0x41...0x46: return Int(char) - 0x41 + 10
    default: return -1
    }
}

/// Whether bytes are exactly this many lower-case hexadecimal digits.
func isHexadecimal(_ value: some Collection<UInt8>, digits: Int) -> Bool {
    value.count == digits && value.allSatisfy { isDigit($0) || (0x61...0x66).contains($0) }
}

func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

/// 64 bits as 16 hexadecimal digits, the highest first.
func hex64(_ bits: UInt64) -> String {
    let text = String(bits, radix: 16)
    return String(repeating: "0", count: 16 - text.count) + text
}

/// Hexadecimal digits that no one can guess: names of temporary files.
func randomHex(_ bytes: Int) -> String {
    var random = SystemRandomNumberGenerator()
    return hexOf((0..<bytes).map { _ in UInt8.random(in: 0...255, using: &random) })
}

private let hexDigits = Array("0123456789abcdef".utf8)
