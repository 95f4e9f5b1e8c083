// Tables of integers that are read by index: Python has numpy for them.

/// A table of integers of at most 32 bits, in an array or in the bytes of a file; it does not change.
struct IntTable: Sendable {
    private enum Storage: Sendable {
        case array([Int32])
        case packed(Bytes, Int)
    }

    private let storage: Storage
    let count: Int

    init(_ values: [Int32]) {
        storage = .array(values)
        count = values.count
    }

    /// A table in little-endian bytes whose entries are unsigned and 1, 2 or 4 bytes wide.
    init(_ bytes: Bytes, width: Int) {
        storage = .packed(bytes, width)
        count = bytes.count / width
    }

    /// The entry at an index; one that needs all 32 bits unsigned looks negative, see ``unsigned(_:)``.
    subscript(_ index: Int) -> Int32 {
        switch storage {
        case .array(let values): return values[index]
        case .packed(let bytes, 1): return Int32(bytes.u8(index))
        case .packed(let bytes, 2): return Int32(bytes.u16(2 * index))
        case .packed(let bytes, _): return bytes.i32(4 * index)
        }
    }

    /// The entry at an index as an unsigned number.
    func unsigned(_ index: Int) -> Int { Int(UInt32(bitPattern: self[index])) }

    /// A copy of the entries from `from` to before `until`.
    func array(_ from: Int = 0, _ until: Int? = nil) -> [Int32] {
        let end = until ?? count
        if case .array(let values) = storage {
            return from == 0 && end == values.count ? values : Array(values[from..<end])
        }
        return (from..<end).map { self[$0] }
    }
}

/// A table of unsigned integers of 8 bytes in little-endian bytes.
struct LongTable: Sendable {
    private let bytes: Bytes

    init(_ bytes: Bytes) { self.bytes = bytes }

    var count: Int { bytes.count / 8 }

    subscript(_ index: Int) -> UInt64 { bytes.u64(8 * index) }
}

/// Rows of unequal length in one table: row i is `values[offsets[i]..<offsets[i + 1]]`.
struct Ragged: Sendable {
    let values: IntTable
    let offsets: IntTable

    init(_ values: IntTable, _ offsets: IntTable) {
        self.values = values
        self.offsets = offsets
    }

    /// Rows given one by one.
    init(rows: some Sequence<[Int32]>) {
        var values: [Int32] = []
        var offsets: [Int32] = [0]
        for row in rows {
            values += row
            offsets.append(Int32(values.count))
        }
        self.init(IntTable(values), IntTable(offsets))
    }

    var count: Int { offsets.count - 1 }
    /// Where a row begins in `values`.
    func start(_ row: Int) -> Int { Int(offsets[row]) }
    func length(_ row: Int) -> Int { Int(offsets[row + 1]) - Int(offsets[row]) }
    func row(_ row: Int) -> [Int32] { values.array(start(row), Int(offsets[row + 1])) }

    /// Whether a row equals a row of another table.
    func isSame(_ row: Int, _ other: Ragged, _ otherRow: Int) -> Bool {
        let length = length(row)
        if other.length(otherRow) != length { return false }
        let (ours, theirs) = (start(row), other.start(otherRow))
        return (0..<length).allSatisfy { values[ours + $0] == other.values[theirs + $0] }
    }
}

/// The first number of a range for which `isBelow` is false, its upper bound if there is none: binary search, for a question
/// that is true up to some number and false from there on.
func firstIndex(in range: Range<Int>, _ isBelow: (Int) -> Bool) -> Int {
    var (low, high) = (range.lowerBound, range.upperBound)
    while low < high {
        let middle = (low + high) / 2
        if isBelow(middle) { low = middle + 1 } else { high = middle }
    }
    return low
}

/// The first index whose entry, in ascending integers, is not below a value.
func lowerBound(_ values: [Int32], _ value: Int32) -> Int { firstIndex(in: 0..<values.count) { values[$0] < value } }
