// Read a grammar file, strictly (spec/17-grammar.md).

private let (format, version) = ("omnidraft.grammar", "1")
private let (mostBytes, mostHeader) = (1 << 25, 1 << 14)
private let (mostStates, mostStack) = (1 << 16, 64)
private let mostTools = 1 << 22  // bytes
private let types = [
    "classes": "U8", "next": "I32", "calls": "I32", "accepting": "U8", "closing": "I32", "nesting": "I32",
]

/// The grammar in a file.
///
/// - Throws: ``OmniDraftError/grammar(_:)``: it cannot be read, is no grammar file, or its tables contradict each other; the
///   fault names why.
func loadGrammar(_ path: String) throws -> Grammar {
    let data = try onFileError(of: try readFile(path, most: mostBytes)) {
        grammarError("unreadable", "\(path) cannot be read (\($0))", "check the path and its permissions")
    }
    return try readGrammar(Bytes(data), path)
}

func readGrammar(_ data: Bytes, _ name: String = "the grammar") throws -> Grammar {
    do {
        let header = try readTensorHeader(data, most: mostHeader)
        let metadata = ByName(header.metadata.map { ($0.name, $0.value) })
        guard isSame(metadata["format"] ?? "", format), isSame(metadata["version"] ?? "", version) else {
            throw ValueError("its metadata do not say \(format) of version \(version)", fault: "format")
        }
        let depth = try depthOf(metadata["depth"] ?? "")
        let tensors = try readTensors(data, entries: header.entries, start: header.start)
        let grammar = try checked(ByName(tensors.map { ($0.name, $0.tensor) }), depth, digest: sha256(data))
        try checkClosing(grammar)
        return grammar
    } catch let error as ValueError {
        throw grammarError(error.fault, "\(name) is no grammar file: \(error.message)", "make it again")
    }
}

private func depthOf(_ digits: String) throws -> Int {
    guard (1...2).contains(digits.utf8.count), digits.utf8.allSatisfy(isDigit), let depth = Int(digits),
        depth <= mostStack
    else { throw ValueError("it does not say how deep it nests, from 0 to \(mostStack)", fault: "format") }
    return depth
}

private func broken(_ why: String) -> ValueError { ValueError(why, fault: "tables") }

/// The grammar of a file's tensors, whose numbers are in their ranges.
private func checked(_ tensors: ByName<Tensor>, _ depth: Int, digest: [UInt8]) throws -> Grammar {
    let listed = tensors["tools"]
    guard tensors.count == types.count + (listed == nil ? 0 : 1), let next = tensors["next"],
        let calls = tensors["calls"],
        types.allSatisfy({ tensors[$0.key]?.dtype == $0.value })
    else { throw broken("its tensors are not those of a grammar") }
    guard next.shape.count == 2, (1...mostStates).contains(next.shape[0]), (1...256).contains(next.shape[1]),
        calls.shape.count == 2, calls.shape[1] == 3
    else { throw broken("it has moves of shape \(next.shape) and calls of shape \(calls.shape)") }
    let (states, classCount) = (next.shape[0], next.shape[1])
    func table(_ name: String, _ count: Int, below limit: Int) throws -> [Int32] {
        guard let tensor = tensors[name], tensor.shape == [count] else { throw broken("its \(name) are not \(count)") }
        return try numbers(name, tensor, in: 0..<limit)
    }
    let classes = try table("classes", 256, below: classCount).map(UInt8.init)
    if Set(classes).count < classCount { throw broken("a class has no byte") }
    let moves = try numbers("next", next, in: -1..<states)
    return Grammar(
        classes: classes, next: moves,
        returns: try returns(
            numbers("calls", calls, in: 0..<mostStates), moves, states: states, classCount: classCount),
        accepting: try table("accepting", states, below: 2).map { $0 == 1 },
        closing: try table("closing", states, below: 1 << 31),
        nesting: try table("nesting", states, below: mostStack + 1), depth: depth, digest: digest,
        tools: try listed.map(toolsOf) ?? "")
}

private func toolsOf(_ tensor: Tensor) throws -> String {
    guard tensor.dtype == "U8", tensor.shape.count == 1, (1...mostTools).contains(tensor.shape[0]) else {
        throw broken("its tools are not 1 to \(mostTools) bytes")
    }
    let data = IntTable(tensor.data, width: 1).array().map { UInt8(truncatingIfNeeded: $0) }
    if !isUtf8(data) { throw broken("its tools are no text") }
    return String(decoding: data, as: UTF8.self)
}

/// The numbers of a tensor, which are in a range.
private func numbers(_ name: String, _ tensor: Tensor, in range: Range<Int>) throws -> [Int32] {
    let numbers = IntTable(tensor.data, width: tensor.dtype == "U8" ? 1 : 4).array()
    guard let wrong = numbers.first(where: { !range.contains(Int($0)) }) else { return numbers }
    throw broken("its \(name) have \(wrong), outside \(range)")
}

/// The states to return to, of calls that are sorted by state and class.
private func returns(_ calls: [Int32], _ moves: [Int32], states: Int, classCount: Int) throws -> [Int: Int32] {
    var returns: [Int: Int32] = [:]
    var last = -1
    for row in stride(from: 0, to: calls.count, by: 3) {
        let (state, ofByte, back) = (Int(calls[row]), Int(calls[row + 1]), calls[row + 2])
        let place = state * classCount + ofByte
        if state >= states || ofByte >= classCount || Int(back) >= states { throw broken("a call leads out of it") }
        if place <= last { throw broken("its calls are not sorted") }
        if moves[place] < 0 { throw broken("a call leads nowhere") }
        returns[place] = back
        last = place
    }
    return returns
}

/// From each state a move or a call leads nearer to the end, so that every text can be completed.
private func checkClosing(_ grammar: Grammar) throws {
    if Int(grammar.nesting[0]) > grammar.depth { throw broken("no text is shallow enough") }
    for state in grammar.accepting.indices {
        let leadsOn =
            grammar.accepting[state]
            ? grammar.closing[state] == 0 && grammar.nesting[state] == 0 : grammar.nearer(state) != nil
        if !leadsOn { throw broken("state \(state) does not lead to the end") }
    }
}
