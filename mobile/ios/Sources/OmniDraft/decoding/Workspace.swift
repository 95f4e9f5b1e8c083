/// Numbers in memory that does not move.
final class NumberRow<Number: BinaryFloatingPoint> {
    let numbers: UnsafeMutablePointer<Number>
    let capacity: Int

    init(_ capacity: Int) {
        self.capacity = capacity
        numbers = .allocate(capacity: capacity)
        numbers.initialize(repeating: 0, count: capacity)
    }

    deinit { numbers.deallocate() }
}

typealias Row = NumberRow<Float>

/// Memory of the size of a vocabulary, which a round borrows and the next round borrows again; for one thread.
///
/// In Python this is the class of the same name in distribution.py.
final class Workspace {
    private var rows: [Row] = []
    private var taken = 0
    private var ids: [Int32] = []
    private var spareRow: Row?

    /// Give all rows back; what holds one of them must not be used any more.
    func reset() { taken = 0 }

    /// A row of at least `size` numbers, of any values, until the next ``reset()``.
    func row(_ size: Int) -> Row {
        if taken == rows.count { rows.append(Row(size)) }
        if rows[taken].capacity < size { rows[taken] = Row(size) }
        taken += 1
        return rows[taken - 1]
    }

    /// The same row each time, of at least `size` numbers of any values, until the next call.
    func spare(_ size: Int) -> Row {
        if let spareRow, spareRow.capacity >= size { return spareRow }
        let row = Row(size)
        spareRow = row
        return row
    }

    /// Ids of any values and number, to be given back.
    func takeIds() -> [Int32] {
        defer { ids = [] }  // so that the array has one owner while it changes
        return ids
    }

    /// Keep the memory of some ids for the next use.
    func giveBack(_ ids: [Int32]) { self.ids = ids }
}

/// A set of ids below a size, as bits.
struct IdSet {
    private var bits: [UInt64]

    init(_ size: Int) { bits = [UInt64](repeating: 0, count: (size + 63) / 64) }

    mutating func clear() { for word in bits.indices { bits[word] = 0 } }

    mutating func add(_ id: Int32) { bits[Int(id) >> 6] |= 1 << UInt64(id & 63) }

    func contains(_ id: Int32) -> Bool { (bits[Int(id) >> 6] >> UInt64(id & 63)) & 1 != 0 }
}

/// P and Q of all options, `count` numbers of each; Q sums to less than 1 where nothing may be proposed.
struct Options {
    let p: NumberRow<Double>
    let q: NumberRow<Double>
    let count: Int

    /// Room for as many options; all numbers are 0.
    init(_ count: Int) { self.init(p: NumberRow(count), q: NumberRow(count), count: count) }

    init(p: NumberRow<Double>, q: NumberRow<Double>, count: Int) {
        (self.p, self.q, self.count) = (p, q, count)
    }

    /// The same numbers, with Q in memory of its own.
    func fresh() -> Options {
        let own = NumberRow<Double>(count)
        own.numbers.update(from: q.numbers, count: count)
        return Options(p: p, q: own, count: count)
    }
}

/// What the decisions of a round share, so that none of them makes arrays of the size of a vocabulary twice.
///
/// Python has no such class: there decisions share the workspace of the drafter.
final class OptionBuffers {
    private let trie: ActiveTrie
    private let row: Row
    private var hasMask = false
    private var hasSpelled = false
    private var spelledIds: IdSet
    private lazy var all = Options(row.capacity + 1)

    init(_ trie: ActiveTrie) {
        self.trie = trie
        row = Row(trie.map.draftSize)
        spelledIds = IdSet(trie.map.targetSize)
    }

    /// Begin a round: the trie may have changed.
    func refresh() {
        hasMask = false
        hasSpelled = false
    }

    /// One for each draft token that begins a spelling, else zero.
    func mask() -> UnsafeMutablePointer<Float> {
        if !hasMask { for index in 0..<trie.map.draftSize { row.numbers[index] = trie.rootMask[index] ? 1 : 0 } }
        hasMask = true
        return row.numbers
    }

    /// Target tokens with an active spelling.
    func spelled() -> IdSet {
        if !hasSpelled {
            spelledIds.clear()
            trie.forEachSpelled { spelledIds.add($0) }
        }
        hasSpelled = true
        return spelledIds
    }

    /// Room for one number of each draft token, and one more.
    func options() -> Options { all }
}
