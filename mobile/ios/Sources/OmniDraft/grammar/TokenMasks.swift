// Which tokens of a target a grammar allows next (spec/17-grammar.md).
//
// A token is allowed if the text behind it can still be completed with the tokens that are left. The bound is the number of
// tokens of one way to complete it, so what is allowed can be completed, always. Bytes that the grammar fixes are written as
// the target spells them.

private let mostMasks = 1024  // that are kept
private let mostFixed = 1 << 12  // bytes
private let unknown: Int32 = -1  // a move that was not computed yet
private let dead: Int32 = 0  // number of the configuration of no text

/// Which ids may come next: those whose bound is less than the limit.
struct Mask {
    /// Tokens that complete the text behind each id.
    let bounds: [UInt16]
    let limit: UInt16

    func allows(_ id: Int32) -> Bool { bounds[Int(id)] < limit }
}

/// How much memory the masks of a grammar take.
struct MaskLimits: Sendable {
    /// Of masks that are kept.
    var bytes = 1 << 24
    /// That are numbered before all are forgotten.
    var configurations = 1 << 16
}

/// Masks of one grammar for one target; for one thread.
final class TokenMasks {
    let grammar: Grammar
    private let trie: ByteTrie
    private let eosIds: [Int32]
    private let controls: [Int32: [UInt8]]
    private let spell: ([UInt8]) -> [Int32]?
    private let beginsShown: Bool
    private let stateBounds: [UInt16]
    private let kept: Int
    private let mostConfigurations: Int
    private var entries: [Configuration: Entry] = [:]
    private var uses = 0
    private var certains: [Configuration: Certain?] = [:]
    // Configurations that texts of tokens lead to, by number.
    private var numbers: [Configuration: Int32] = [:]
    private var configurations: [Configuration] = []
    private var moves: [Int32] = []  // a row of classes for each number
    private var bounds: [UInt16] = []

    /// What may follow a configuration.
    private struct Entry {
        let bounds: [UInt16]
        /// The same of the ids that fixed bytes are written with, and no others; nil where any may write them.
        let spelled: [UInt16]?
        /// The smallest bound of an id, of those that fixed bytes are written with, and of a token with bytes.
        let least: (any: UInt16, spelled: UInt16, withBytes: UInt16)
        var lastUse: Int
    }

    /// The only token that may write fixed bytes, and the bound behind it.
    typealias Certain = (token: Int32, bound: UInt16)

    /// - Parameters:
    ///   - trie: the bytes of the target's tokens.
    ///   - eosIds: end tokens, which are allowed where a text is complete.
    ///   - controls: what outputs show of control tokens.
    ///   - spell: the target's own ids of a fragment. By default it has none, and any ids may write it.
    /// - Throws: ``OmniDraftError/grammar(_:)`` `vocabulary`: the target's tokens cannot write any text of the grammar.
    init(
        _ grammar: Grammar, _ trie: ByteTrie, eosIds: some Sequence<Int32>, controls: [Int32: [UInt8]] = [:],
        spell: @escaping ([UInt8]) -> [Int32]? = { _ in nil }, limits: MaskLimits = MaskLimits()
    ) throws {
        self.grammar = grammar
        self.trie = trie
        self.eosIds = eosIds.filter { Int($0) < trie.width }
        self.controls = controls
        self.spell = spell
        beginsShown = controls.values.contains { grammar.read(.start, $0) != nil }
        stateBounds = boundsOf(grammar, trie)
        kept = max(1, min(mostMasks, limits.bytes / (4 * trie.width)))
        mostConfigurations = limits.configurations
        if bound(.start) == never {
            throw grammarError("vocabulary", "the target's tokens cannot write a text of the grammar")
        }
    }

    /// The tokens of one way to complete a text from here; `UInt16.max` where the tokens cannot.
    func bound(_ at: Configuration) -> UInt16 {
        let sum = at.stack.reduce(Int(stateBounds[Int(at.state)])) { $0 + Int(stateBounds[Int($1)]) }
        return UInt16(min(sum, Int(never)))
    }

    /// Which ids may come next; nil where none may.
    ///
    /// - Parameter room: tokens that may still be emitted, this one included, at least 1.
    func mask(_ at: Configuration, room: Int) -> Mask? {
        let limit = UInt16(min(room, Int(never)))
        if let alone = certain(at), alone.bound < limit {
            var bounds = [UInt16](repeating: never, count: trie.width)
            bounds[Int(alone.token)] = alone.bound
            return Mask(bounds: bounds, limit: limit)
        }
        let entry = entry(at)
        if let spelled = entry.spelled, entry.least.spelled < limit { return Mask(bounds: spelled, limit: limit) }
        return entry.least.any < limit ? Mask(bounds: entry.bounds, limit: limit) : nil
    }

    /// Whether a text is complete here and no token with bytes may follow.
    ///
    /// - Parameter room: tokens that may still be emitted; with 0, whether none might follow with any room.
    func isLast(_ at: Configuration, room: Int) -> Bool {
        if !grammar.isComplete(at) { return false }
        if !grammar.goesOn(at.state) { return true }
        return Int(entry(at).least.withBytes) >= (room == 0 ? Int(never) : min(room, Int(never)))
    }

    /// The configuration behind an allowed token; nil behind an end token, or one that is not allowed.
    ///
    /// - Parameter data: the bytes of the token.
    func behind(_ at: Configuration, _ token: Int32, _ data: [UInt8]) -> Configuration? {
        if !data.isEmpty { return grammar.read(at, data) }
        let isFree = grammar.isFree(at)
        if eosIds.contains(token) || !(isFree || at == .start) { return nil }
        // Without a shown text it goes on without the token's bytes.
        return controls[token].map { grammar.read(at, $0) } ?? (isFree ? at : nil)
    }

    /// The bytes that every text has next, up to a place where it may end or has a choice; some at most.
    func forced(_ at: Configuration) -> [UInt8] {
        var (data, at) = ([UInt8](), at)
        while data.count < mostFixed, !grammar.isComplete(at), let byte = grammar.singleByte(at.state),
            let behind = grammar.step(at, byte)
        {
            data.append(byte)
            at = behind
        }
        return data
    }

    /// The only id that may write the bytes that are fixed next, and the bound behind it; nil where there are more.
    func certain(_ at: Configuration) -> Certain? {
        if let found = certains[at] { return found }
        if certains.count > mostConfigurations { certains = [:] }
        let found = alone(at)
        certains[at] = .some(found)
        return found
    }

    /// The target's own ids of the bytes that are fixed next.
    func spelled(_ at: Configuration) -> [Int32] {
        let data = forced(at)
        return data.isEmpty ? [] : spell(data) ?? []
    }

    private func alone(_ at: Configuration) -> Certain? {
        guard let (first, beyond) = spelling(at) else { return nil }
        if beyond.isEmpty, let text = trie.text(first, startOf: forced(at)), let behind = grammar.read(at, text) {
            let bound = bound(behind)
            if bound < never { return (first, bound) }
        }
        let entry = entry(at)
        let bounds = entry.least.spelled < never ? entry.spelled ?? [] : entry.bounds
        let found = bounds.indices.lazy.filter { bounds[$0] < never }.prefix(2)
        return found.count == 1 ? found.first.map { (Int32($0), bounds[$0]) } : nil
    }

    /// The first of the ids that spell the fixed bytes, and those that reach beyond these; nil where any may be.
    private func spelling(_ at: Configuration) -> (first: Int32, beyond: ArraySlice<Int32>)? {
        if at == .start && beginsShown { return nil }
        return spelled(at).first.map { ($0, trie.beyond(forced(at))) }
    }

    private func entry(_ at: Configuration) -> Entry {
        uses += 1
        var entry = entries[at] ?? computed(at)
        entry.lastUse = uses
        entries[at] = entry
        if entries.count > kept, let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse }) {
            entries[oldest.key] = nil
        }
        return entry
    }

    private func computed(_ at: Configuration) -> Entry {
        var found = [UInt16](repeating: never, count: trie.width)
        if configurations.count > mostConfigurations || configurations.isEmpty { forget() }
        var path = [Int32](repeating: dead, count: trie.longest + 1)  // numbers of a node and those before it
        path[0] = number(at)
        var node = 1
        while node < trie.nodes.count - 1 {
            let each = trie.nodes[node]
            let depth = Int(each.depth)
            let to = behind(path[depth - 1], Int(grammar.classes[Int(each.byte)]))
            if to == dead {
                node = Int(each.after)
                continue
            }
            path[depth] = to
            for place in each.tokens..<trie.nodes[node + 1].tokens {
                found[Int(trie.tokens[Int(place)])] = bounds[Int(to)]
            }
            if configurations.count > mostConfigurations { forget(allBut: &path, depth + 1) }
            node += 1
        }
        let leastWithBytes = found.min() ?? never
        if grammar.isComplete(at) { for id in eosIds { found[Int(id)] = 0 } }
        let isFree = grammar.isFree(at)
        if isFree { for id in trie.silent { found[Int(id)] = 0 } }
        if isFree || at == .start {
            for (id, data) in controls { found[Int(id)] = grammar.read(at, data).map(bound) ?? never }
        }
        let spelled = spelling(at).map { first, beyond in
            var own = [UInt16](repeating: never, count: trie.width)
            for id in beyond + [first] { own[Int(id)] = found[Int(id)] }
            return own
        }
        let least = (any: found.min() ?? never, spelled: spelled?.min() ?? never, withBytes: leastWithBytes)
        return Entry(bounds: found, spelled: spelled, least: least, lastUse: 0)
    }

    /// Discards all numbers; number 0 marks bytes that leave the grammar.
    private func forget() {
        numbers = [:]
        configurations = [.start]
        moves = [Int32](repeating: dead, count: grammar.classCount)
        bounds = [never]
    }

    /// The same, and numbers the first ones of a path again.
    private func forget(allBut path: inout [Int32], _ count: Int) {
        let kept = path[..<count].map { configurations[Int($0)] }
        forget()
        for (depth, each) in kept.enumerated() { path[depth] = number(each) }
    }

    private func number(_ at: Configuration) -> Int32 {
        if let known = numbers[at] { return known }
        let number = Int32(configurations.count)
        numbers[at] = number
        configurations.append(at)
        moves.append(contentsOf: repeatElement(unknown, count: grammar.classCount))
        bounds.append(bound(at))
        return number
    }

    /// The number of the configuration behind a byte of a class.
    private func behind(_ from: Int32, _ ofByte: Int) -> Int32 {
        let place = Int(from) * grammar.classCount + ofByte
        let known = moves[place]
        if known != unknown { return known }
        let to = grammar.move(configurations[Int(from)], ofByte).map(number) ?? dead
        moves[place] = to
        return to
    }
}
