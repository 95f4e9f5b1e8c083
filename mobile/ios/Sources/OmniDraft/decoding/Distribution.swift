// Probability distributions over token ids: drawing, verification and correction use nothing else.

/// A probability distribution over token ids 0 until `size`.
protocol Distribution {
    var size: Int { get }
    /// Whether one token has all the mass.
    var isCertain: Bool { get }
    /// The largest probability.
    var confidence: Double { get }

    func probability(_ id: Int32) -> Double
    /// The sum of the probabilities of distinct ids.
    func mass(_ ids: [Int32]) -> Double
    /// The sum of the probabilities of all other ids; 0 only if each is 0, in spite of rounding.
    func massOutside(_ ids: IdSet) -> Double
    /// The sum of the probabilities of all ids but one; 0 only if each is 0, in spite of rounding.
    func massOutside(_ id: Int32) -> Double
    /// The sum of the probabilities of the ids where a mask of zeros and ones has a one.
    func mass(under mask: UnsafePointer<Float>) -> Double
    /// The token at `uniform`, from 0 to before 1, of the cumulative distribution, restricted to `among` if given.
    func draw(_ uniform: Double, among: [Int32]?) -> Int32
    /// The distribution given that the token is none of the ids.
    func without(_ ids: IdSet) -> any Distribution
    /// The distribution given that the token is another one than `id`.
    func without(_ id: Int32) -> any Distribution
}

/// All mass on one token: what temperature 0 makes of a row (ties: lowest id).
struct OneHot: Distribution {
    let token: Int32
    let size: Int
    /// Of a drafter, the token's probability in the softmax of its row.
    var confidence = 1.0
    /// Whether a draw uses no random number; it does where other rows of a text are sampled.
    var isCertain = true

    func probability(_ id: Int32) -> Double { id == token ? 1 : 0 }
    func mass(_ ids: [Int32]) -> Double { ids.contains(token) ? 1 : 0 }
    func massOutside(_ ids: IdSet) -> Double { ids.contains(token) ? 0 : 1 }
    func massOutside(_ id: Int32) -> Double { token == id ? 0 : 1 }
    func mass(under mask: UnsafePointer<Float>) -> Double { Double(mask[Int(token)]) }
    func draw(_ uniform: Double, among: [Int32]?) -> Int32 { token }
    func without(_ ids: IdSet) -> any Distribution { self }
    func without(_ id: Int32) -> any Distribution { self }
}

/// A distribution with unnormalised weights in float32.
///
/// Sums are taken over blocks in float32 and from there in float64: a probability is right to about 1e-7.
struct Categorical: Distribution {
    let size: Int
    private let row: Row
    private let workspace: Workspace
    private let blocks: [Double]
    private let total: Double

    /// - Parameters:
    ///   - row: numbers in proportion to the probabilities, the first `size` of them; not copied.
    ///   - blocks: the sum of each block of weights; nil computes them.
    init(_ row: Row, _ size: Int, _ workspace: Workspace, blocks: [Double]? = nil) {
        self.row = row
        self.size = size
        self.workspace = workspace
        self.blocks = blocks ?? blockSums(row.numbers, size)
        total = self.blocks.reduce(0, +)
    }

    init(_ weights: [Double]) {
        let row = Row(max(1, weights.count))
        for (index, weight) in weights.enumerated() { row.numbers[index] = Float(weight) }
        self.init(row, weights.count, Workspace())
    }

    private var weights: UnsafeMutablePointer<Float> { row.numbers }

    var isCertain: Bool { false }
    var confidence: Double { Double(weights[argmax(weights, size)]) / total }

    func probability(_ id: Int32) -> Double { Double(weights[Int(id)]) / total }

    func mass(_ ids: [Int32]) -> Double {
        var sum = 0.0
        for id in ids { sum += Double(weights[Int(id)]) }
        return sum / total
    }

    func massOutside(_ ids: IdSet) -> Double {
        var sum = 0.0
        for id in 0..<size where !ids.contains(Int32(id)) { sum += Double(weights[id]) }
        return sum / total
    }

    func massOutside(_ id: Int32) -> Double {
        let own = Int(id) / blockSize
        var sum = 0.0
        for other in own * blockSize..<min(size, (own + 1) * blockSize) where other != Int(id) {
            sum += Double(weights[other])
        }
        for (block, mass) in blocks.enumerated() where block != own { sum += mass }
        return sum / total
    }

    func mass(under mask: UnsafePointer<Float>) -> Double { maskedSum(weights, mask: mask, size: size) / total }

    func draw(_ uniform: Double, among: [Int32]?) -> Int32 {
        if let among { return among[inverse(among.count, uniform) { Double(weights[Int(among[$0])]) }] }
        let level = uniform * total
        var block = 0
        var before = 0.0
        while block < blocks.count - 1 && before + blocks[block] <= level {
            before += blocks[block]
            block += 1
        }
        let share = (level - before) / max(blocks[block], 1e-300)
        let first = block * blockSize
        let inside = inverse(min(blockSize, size - first), min(max(share, 0), 1)) { Double(weights[first + $0]) }
        var id = first + inside
        // The nearest id that has weight, where rounding led to one that has none.
        while id > 0 && weights[id] <= 0 { id -= 1 }
        return Int32(id)
    }

    func without(_ ids: IdSet) -> any Distribution {
        without { others in for id in 0..<size where ids.contains(Int32(id)) { others[id] = 0 } }
    }

    func without(_ id: Int32) -> any Distribution { without { $0[Int(id)] = 0 } }

    private func without(_ clear: (UnsafeMutablePointer<Float>) -> Void) -> any Distribution {
        let others = workspace.row(size)
        others.numbers.update(from: weights, count: size)
        clear(others.numbers)
        return Categorical(others, size, workspace)
    }
}

/// Index at `uniform` of the cumulative weights; never one of weight zero unless all before it are.
func inverse(_ count: Int, _ uniform: Double, _ weight: (Int) -> Double) -> Int {
    var sum = 0.0
    for index in 0..<count { sum += weight(index) }
    let level = uniform * sum
    var index = 0
    var cumulative = weight(0)
    while index < count - 1 && cumulative <= level {
        index += 1
        cumulative += weight(index)
    }
    while index > 0 && weight(index) <= 0 { index -= 1 }
    return index
}

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
