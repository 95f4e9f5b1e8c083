/// Numbers in memory that does not move.
final class Row {
    let numbers: UnsafeMutablePointer<Float>
    let capacity: Int

    init(_ capacity: Int) {
        self.capacity = capacity
        numbers = .allocate(capacity: capacity)
        numbers.initialize(repeating: 0, count: capacity)
    }

    deinit { numbers.deallocate() }
}

/// Memory of the size of a vocabulary, which a round borrows and the next round borrows again; for one thread.
///
/// Python has no such class: there numpy allocates each row.
final class Workspace {
    private var rows: [Row] = []
    private var taken = 0

    /// Give all rows back; what holds one of them must not be used any more.
    func reset() { taken = 0 }

    /// A row of at least `size` numbers, of any values, until the next ``reset()``.
    func row(_ size: Int) -> Row {
        if taken == rows.count { rows.append(Row(size)) }
        if rows[taken].capacity < size { rows[taken] = Row(size) }
        taken += 1
        return rows[taken - 1]
    }
}

/// A set of ids below a size, as bits.
struct IdSet {
    private var bits: [UInt64]

    init(_ size: Int) { bits = [UInt64](repeating: 0, count: (size + 63) / 64) }

    mutating func add(_ id: Int32) { bits[Int(id) >> 6] |= 1 << UInt64(id & 63) }

    func contains(_ id: Int32) -> Bool { (bits[Int(id) >> 6] >> UInt64(id & 63)) & 1 != 0 }
}
