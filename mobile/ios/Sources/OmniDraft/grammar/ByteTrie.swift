// The bytes of all tokens of a target as a trie (spec/17-grammar.md).

/// All tokens that have bytes; control tokens and unused ids are in no node.
///
/// The nodes are in the order of their bytes: behind a node come all that begin with it. So a walk goes forward in memory,
/// and steps over what it does not enter.
final class ByteTrie: Sendable {
    struct Node: Sendable {
        let byte: UInt8
        let depth: Int32
        /// The next node that does not begin with it.
        var after: Int32 = 0
        /// The place in ``ByteTrie/tokens`` of the ids that have its bytes; they end where those of the next node begin.
        let tokens: Int32
    }

    /// Of the logits, which may have more ids than tokens.
    let width: Int
    /// The empty text, the nodes, and one that ends the last node's ids.
    let nodes: [Node]
    /// Ids in the order of their bytes.
    let tokens: [Int32]
    let longest: Int
    /// Ids that have no bytes.
    let silent: [Int32]

    /// - Parameter tokens: bytes of each id; nil for control tokens and unused ids.
    init(_ tokens: [[UInt8]?], width: Int) {
        let known = tokens.prefix(width).enumerated().compactMap { id, text in
            text.flatMap { $0.isEmpty ? nil : (id: Int32(id), text: $0) }
        }
        let sorted = known.sorted { a, b in a.text == b.text ? a.id < b.id : a.text.lexicographicallyPrecedes(b.text) }
        self.width = width
        self.tokens = sorted.map(\.id)
        longest = sorted.map(\.text.count).max() ?? 0
        nodes = nodesOf(sorted.map(\.text))
        silent = Set(0..<Int32(width)).subtracting(known.map(\.id)).sorted()
    }

    /// The node behind one more byte; nil where no token goes on so.
    func child(_ node: Int, _ byte: UInt8) -> Int? {
        var child = node + 1
        while child < Int(nodes[node].after) {
            if nodes[child].byte == byte { return child }
            child = Int(nodes[child].after)
        }
        return nil
    }

    func isToken(_ node: Int) -> Bool { !ids(node).isEmpty }

    /// The ids of the tokens that begin with some bytes and have more.
    func beyond(_ data: [UInt8]) -> ArraySlice<Int32> {
        let path = path(data)
        guard path.count == data.count, let node = path.last else { return [] }
        return tokens[Int(nodes[node + 1].tokens)..<Int(nodes[Int(nodes[node].after)].tokens)]
    }

    /// The bytes of a token that some bytes begin with; nil if they do not begin with it.
    func text(_ token: Int32, startOf data: [UInt8]) -> [UInt8]? {
        path(data).firstIndex { ids($0).contains(token) }.map { Array(data[...$0]) }
    }

    /// The nodes behind 1, 2, ... bytes, as far as tokens go on so.
    private func path(_ data: [UInt8]) -> [Int] {
        var path: [Int] = []
        for byte in data {
            guard let node = child(path.last ?? 0, byte) else { break }
            path.append(node)
        }
        return path
    }

    private func ids(_ node: Int) -> ArraySlice<Int32> { tokens[Int(nodes[node].tokens)..<Int(nodes[node + 1].tokens)] }
}

/// The nodes of sorted texts.
private func nodesOf(_ texts: [[UInt8]]) -> [ByteTrie.Node] {
    var nodes = [ByteTrie.Node(byte: 0, depth: 0, tokens: 0)]
    var path = [0]  // the nodes of the last text, by depth
    var before: [UInt8] = []
    func close(_ depth: Int) {
        while path.count > depth { nodes[path.removeLast()].after = Int32(nodes.count) }
    }
    for (number, text) in texts.enumerated() {
        let shared = zip(before, text).prefix { $0 == $1 }.count
        close(shared + 1)
        for depth in shared..<text.count {
            path.append(nodes.count)
            nodes.append(ByteTrie.Node(byte: text[depth], depth: Int32(depth + 1), tokens: Int32(number)))
        }
        before = text
    }
    close(0)
    nodes.append(ByteTrie.Node(byte: 0, depth: 0, tokens: Int32(texts.count)))
    return nodes
}
