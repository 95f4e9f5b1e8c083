// A program that cuts words out of a text, by classes of code points (spec/02-tokenizer.md).

/// The instructions of a program; execution begins at the first.
struct Program: Sendable {
    let ops: [Op]
    /// Of each instruction; targets of jumps count from the program's beginning.
    let a: [Int]
    let b: [Int]
    /// Of each split among the splits; 0 for other instructions.
    let number: [Int]
    let splits: Int
    /// Instructions that run for each position of a text, at most: from the beginning, and both ways from each split.
    let cost: Int

    /// A program of the instructions `start` until `start + size`, checked: execution stays inside and ends.
    init(_ code: IntTable, start: Int, size: Int, classes: Int) throws {
        ops = try (0..<size).map { try checkedInstruction(code, start, size, $0, classes) }
        guard let last = ops.last, [.match, .split, .jump].contains(last) else {
            throw ValueError("the last instruction is not MATCH, SPLIT or JUMP")
        }
        a = (0..<size).map { code.unsigned(3 * (start + $0) + 1) }
        b = (0..<size).map { code.unsigned(3 * (start + $0) + 2) }
        var splits = 0
        number = ops.map { op in
            if op != .split { return 0 }
            splits += 1
            return splits - 1
        }
        self.splits = splits
        // A way ends with the next split or match. Only a split remembers that it was visited, so instructions that many
        // splits lead to count for each of them.
        var ways = [Int](repeating: 1, count: size)  // instructions on the way from each one
        for at in (0..<size).reversed() {
            switch ops[at] {
            case .match, .split: break
            case .jump: ways[at] += a[at] > at ? ways[a[at]] : 1  // back to a split
            default: ways[at] += ways[at + 1]
            }
        }
        var cost = ways[0]
        for at in 0..<size where ops[at] == .split { cost += ways[a[at]] + ways[b[at]] }
        self.cost = cost
    }
}

private func checkedInstruction(_ code: IntTable, _ start: Int, _ size: Int, _ at: Int, _ classes: Int) throws -> Op {
    let number = code.unsigned(3 * (start + at))
    let a = code.unsigned(3 * (start + at) + 1)
    let b = code.unsigned(3 * (start + at) + 2)
    guard let op = Op(rawValue: number) else {
        throw ValueError("instruction \(at) is \(number), which is not an instruction")
    }
    switch op {
    case .match: break
    case .split: if a >= size || b >= size { throw ValueError("instruction \(at) leads outside") }
    case .jump:
        if a >= size { throw ValueError("instruction \(at) leads outside") }
        if a <= at && Int(code[3 * (start + a)]) != Op.split.rawValue {
            throw ValueError("instruction \(at) jumps back to an instruction that is not SPLIT")
        }
    default: if a >= classes { throw ValueError("instruction \(at) names class \(a) of \(classes)") }
    }
    return op
}

/// The matches of a program in a text, from left to right; none overlaps the one before it.
func matches(_ program: Program, _ masks: [UInt64]) -> [Range<Int>] {
    var attempts = Attempts(program, masks)
    var found: [Range<Int>] = []
    var start = 0
    while start < masks.count {
        let end = attempts.run(start) ?? start
        if end > start { found.append(start..<end) }
        start = max(end, start + 1)
    }
    return found
}

/// The attempts of a program to match at the places of one text.
private struct Attempts {
    private let program: Program
    private let masks: [UInt64]
    // A state that failed once fails again, also in a later attempt: the marks last for the whole text.
    private var visited: [UInt64]
    private var waiting: [(pc: Int, at: Int)] = []  // to try where the current path fails

    init(_ program: Program, _ masks: [UInt64]) {
        self.program = program
        self.masks = masks
        visited = [UInt64](repeating: 0, count: (program.splits * (masks.count + 1) + 63) / 64)
    }

    /// The end of the match that begins at `start`; nil if none does.
    mutating func run(_ start: Int) -> Int? {
        waiting.removeAll(keepingCapacity: true)
        var (pc, at) = (0, start)
        while true {
            if program.ops[pc] == .match { return at }
            if let next = step(pc, at) {
                if program.ops[pc] == .codeClass { at += 1 }
                pc = next
            } else {
                guard let last = waiting.popLast() else { return nil }
                (pc, at) = last
            }
        }
    }

    /// The instruction behind `pc` on the current path; nil where it fails.
    private mutating func step(_ pc: Int, _ at: Int) -> Int? {
        let a = program.a[pc]
        switch program.ops[pc] {
        case .codeClass, .nextIs: return isIn(at, a) ? pc + 1 : nil
        case .nextIsNot: return isIn(at, a) ? nil : pc + 1
        case .beforeIs: return isIn(at - 1, a) ? pc + 1 : nil
        case .beforeIsNot: return isIn(at - 1, a) ? nil : pc + 1
        case .jump: return a
        case .split: return visit(pc, at) ? a : nil
        case .match: return pc
        }
    }

    private func isIn(_ at: Int, _ codeClass: Int) -> Bool {
        at >= 0 && at < masks.count && (masks[at] >> UInt64(codeClass)) & 1 != 0
    }

    /// Marks a split at a position, and keeps its second way for later; false if it was marked.
    private mutating func visit(_ pc: Int, _ at: Int) -> Bool {
        let state = at * program.splits + program.number[pc]
        let bit = UInt64(1) << UInt64(state & 63)
        if visited[state >> 6] & bit != 0 { return false }
        visited[state >> 6] |= bit
        waiting.append((program.b[pc], at))
        return true
    }
}
