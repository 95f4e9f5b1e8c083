// Byte-pair encoding: join the pair of neighbours with the lowest rank, until no pair has a rank (spec/02-tokenizer.md).

/// What a pair of ids becomes: its rank, unsigned, and the merged id.
struct Merge: Sendable {
    let rank: Int
    let id: Int32
}

/// Merges by their pair of ids, found by binary search; pairs that were looked up stay. One thread uses it.
final class MergeTable {
    private let keys: LongTable
    private let values: IntTable
    private var known: [UInt64: Merge?] = [:]

    /// - Parameter keys: left << 32 | right of each merge, ascending.
    init(_ keys: LongTable, _ values: IntTable) {
        self.keys = keys
        self.values = values
    }

    /// Rank and merged id of a pair; nil where nothing joins it.
    func find(_ left: Int32, _ right: Int32) -> Merge? {
        let key = UInt64(UInt32(bitPattern: left)) << 32 | UInt64(UInt32(bitPattern: right))
        if let merge = known[key] { return merge }
        if known.count >= 1 << 15 { known.removeAll(keepingCapacity: true) }
        let merge = search(key)
        known[key] = .some(merge)
        return merge
    }

    private func search(_ key: UInt64) -> Merge? {
        let low = firstIndex(in: 0..<keys.count) { keys[$0] < key }
        if low == keys.count || keys[low] != key { return nil }
        return Merge(rank: values.unsigned(2 * low), id: values[2 * low + 1])
    }

    /// Joins neighbours, the lowest rank first, of equal ranks the leftmost. Time O(n log n).
    ///
    /// A queue holds every pair that has a rank. An entry whose pair has changed meanwhile is dropped: its left symbol is
    /// gone, or the pair gives another id.
    func merge(_ word: [Int32]) -> [Int32] {
        if word.count < 2 { return word }
        var symbols = word
        var before = word.indices.map { $0 - 1 }
        var behind = word.indices.map { $0 + 1 }
        var queue = MergeQueue()
        func look(_ left: Int, _ right: Int) {
            if let merge = find(symbols[left], symbols[right]) { queue.add(merge, left) }
        }
        for at in 0..<(word.count - 1) { look(at, at + 1) }
        while let next = queue.removeFirst() {
            let right = behind[next.place]
            if symbols[next.place] < 0 || right >= symbols.count { continue }
            if find(symbols[next.place], symbols[right])?.id != next.id { continue }
            symbols[next.place] = next.id
            symbols[right] = noId
            behind[next.place] = behind[right]
            if behind[next.place] < symbols.count {
                before[behind[next.place]] = next.place
                look(next.place, behind[next.place])
            }
            if before[next.place] >= 0 { look(before[next.place], next.place) }
        }
        return symbols.filter { $0 >= 0 }
    }
}

/// Pairs that may be joined, the lowest (rank, place, merged id) first: a binary heap.
private struct MergeQueue {
    struct Entry {
        let rank: Int
        let place: Int
        let id: Int32

        static func < (a: Entry, b: Entry) -> Bool { (a.rank, a.place, a.id) < (b.rank, b.place, b.id) }
    }

    private var entries: [Entry] = []

    mutating func add(_ merge: Merge, _ place: Int) {
        entries.append(Entry(rank: merge.rank, place: place, id: merge.id))
        var at = entries.count - 1
        while at > 0, entries[at] < entries[(at - 1) / 2] {
            entries.swapAt(at, (at - 1) / 2)
            at = (at - 1) / 2
        }
    }

    mutating func removeFirst() -> Entry? {
        guard let first = entries.first else { return nil }
        let last = entries.removeLast()
        if entries.isEmpty { return first }
        entries[0] = last
        var at = 0
        while 2 * at + 1 < entries.count {
            var child = 2 * at + 1
            if child + 1 < entries.count, entries[child + 1] < entries[child] { child += 1 }
            if !(entries[child] < entries[at]) { break }
            entries.swapAt(child, at)
            at = child
        }
        return first
    }
}
