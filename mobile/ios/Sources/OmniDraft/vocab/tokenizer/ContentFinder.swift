/// Whether a code point has Unicode's property White_Space, unchanged since Unicode 6.3.
func isWhiteSpace(_ point: UInt32) -> Bool {
    switch point {
    case 0x09...0x0d, 0x20, 0x85, 0xa0, 0x1680, 0x2000...0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000: return true
    default: return false
    }
}

/// Finds the contents of added tokens in a text: leftmost first, the longest of those that begin there.
///
/// The contents are sorted, and those that share their beginning are a range of them, as in the trie of spellings.
struct ContentFinder: Sendable {
    private let numbers: [Int]
    private let sorted: [[UInt32]]
    private let begins: Set<UInt32>

    /// - Parameter contents: to be found, none of them empty, all different.
    init(_ contents: [[UInt32]]) {
        numbers = contents.indices.sorted { contents[$0].lexicographicallyPrecedes(contents[$1]) }
        sorted = numbers.map { contents[$0] }
        begins = Set(contents.compactMap(\.first))
    }

    /// The matches in a text, none of which overlaps the one before it, each with the number of its content.
    func matches(_ text: [UInt32]) -> [(range: Range<Int>, number: Int)] {
        if sorted.isEmpty { return [] }
        var found: [(Range<Int>, Int)] = []
        var start = 0
        while start < text.count {
            if begins.contains(text[start]), let match = longest(text, start) {
                let end = start + sorted[match].count
                found.append((start..<end, numbers[match]))
                start = end
            } else {
                start += 1
            }
        }
        return found
    }

    /// The place in `sorted` of the longest content that begins at a place of a text.
    private func longest(_ text: [UInt32], _ start: Int) -> Int? {
        var (low, high) = (0, sorted.count)
        var best: Int?
        for depth in 0..<(text.count - start) {
            low = bound(low, high, depth, text[start + depth])
            high = bound(low, high, depth, text[start + depth] + 1)
            if low == high { break }
            // A content comes before those that go on behind it.
            if sorted[low].count == depth + 1 {
                best = low
                low += 1
            }
        }
        return best
    }

    /// The first content from `low` on, of those that agree up to `depth`, whose code point there is not below `point`.
    private func bound(_ low: Int, _ high: Int, _ depth: Int, _ point: UInt32) -> Int {
        firstIndex(in: low..<high) { sorted[$0][depth] < point }
    }
}
