// The rest of reading a compiled tokenizer: strings, added tokens, programs and steps (spec/02-tokenizer.md).

/// The strings of a file, checked; each is decoded when it is asked for.
struct TokenizerStrings {
    private let data: Bytes
    private let offsets: IntTable

    init(_ sections: TokenizerSections) throws {
        data = sections[.strings]
        offsets = sections.words(.stringOffsets)
        try requireSound(
            offsetsFit(offsets, data.count) && offsets.count <= mostStrings + 1, "strings",
            "the offsets of its strings do not ascend")
        for index in 0..<count {
            let length = Int(offsets[index + 1]) - Int(offsets[index])
            try requireSound(length <= mostString, "strings", "a string has over \(mostString) bytes")
        }
        for index in 0..<count { try requireSound(isUtf8(bytes(index)), "strings", "a string is not UTF-8") }
    }

    var count: Int { offsets.count - 1 }

    subscript(_ index: Int) -> [UInt32] { codePoints(String(decoding: bytes(index), as: UTF8.self)) }

    private func bytes(_ index: Int) -> [UInt8] { data.array(Int(offsets[index]), Int(offsets[index + 1])) }
}

/// The added tokens: control tokens, those read before the normaliser, those read behind it; the last of each content.
func addedTokens(_ records: IntTable, _ strings: TokenizerStrings, _ ids: Int, _ wordClass: Int32) throws
    -> [AddedToken]
{
    var sorts = [[AddedToken]](repeating: [], count: 3)
    var places = [[[UInt32]: Int]](repeating: [:], count: 3)
    for record in stride(from: 0, to: records.count, by: 3) {
        let id = records.unsigned(record)
        let flags = records.unsigned(record + 1)
        let index = records.unsigned(record + 2)
        try requireSound(id < ids, "id", "an added token has the id \(id) of \(ids)")
        try requireSound(index < strings.count && flags < 32, "added", "added token \(id) has unknown fields")
        let isControl = flags & AddedFlag.control != 0
        let isWord = flags & AddedFlag.singleWord != 0 && !isControl
        let content = strings[index]
        try requireSound(!content.isEmpty, "added", "added token \(id) has no content")
        try requireSound(!isWord || wordClass != noId, "added", "added token \(id) needs a class of words")
        let sort = isControl ? 0 : flags & AddedFlag.normalized == 0 ? 1 : 2
        let token = AddedToken(id: Int32(id), content: content, flags: flags)
        if let place = places[sort][content] {
            sorts[sort][place] = token
        } else {
            places[sort][content] = sorts[sort].count
            sorts[sort].append(token)
        }
    }
    return sorts.flatMap { $0 }
}

private func programs(_ sections: TokenizerSections, _ classes: Int) throws -> [Program] {
    let code = sections.words(.code)
    let places = sections.words(.programs)
    try requireSound(
        code.count <= 3 * mostCode && places.count <= 2 * mostPrograms, "program", "its programs are too large")
    return try (0..<places.count / 2).map { index in
        let start = places.unsigned(2 * index)
        let size = places.unsigned(2 * index + 1)
        try requireSound(start + size <= code.count / 3 && size <= mostProgram, "program", "a program is out of bounds")
        do {
            return try Program(code, start: start, size: size, classes: classes)
        } catch let error as ValueError {
            throw tokenizerError("program", "a program is refused, since \(error.message)")
        }
    }
}

/// The steps: those of the normaliser first, and BYTES once in a byte-level tokenizer and in no other.
func textSteps(
    _ sections: TokenizerSections, _ strings: TokenizerStrings, _ classes: Int, _ kind: Int
) throws -> [TextStep] {
    let programs = try programs(sections, classes)
    let records = sections.words(.steps)
    try requireSound(records.count <= 4 * mostSteps, "step", "it has \(records.count / 4) steps")
    let steps = try stride(from: 0, to: records.count, by: 4).map { at in
        try textStep((0..<4).map { records.unsigned(at + $0) }, strings, programs, classes)
    }
    let first = steps.firstIndex { !$0.op.isNormaliser } ?? steps.count
    try requireSound(
        steps[first...].allSatisfy { !$0.op.isNormaliser }, "step", "the normaliser is not in front")
    let expected = kind == TokenizerKind.byteLevel.rawValue ? 1 : 0
    try requireSound(
        steps.count { $0.op == .bytes } == expected, "step", "a step BYTES is missing or one too many")
    return steps
}

/// Refuses steps that lengthen a text too much, or work on it too long, whatever the text is.
func checkWork(_ steps: [TextStep], _ added: [AddedToken]) throws {
    let longest = added.map { utf8($0.content).count }.max() ?? 0
    let normalisers = steps.count { $0.op.isNormaliser }
    var growth = 1
    var work = normalisers == 0 ? longest : 0  // for each byte of a text
    for (number, step) in steps.enumerated() {
        work += growth * workOf(step)
        growth *= growthOf(step)
        if number + 1 == normalisers { work += growth * longest }
        try requireSound(growth <= mostGrowth, "step", "its steps make a text over \(mostGrowth) times longer")
    }
    try requireSound(work <= mostWork, "step", "it takes \(work) units of work for a byte of text, of \(mostWork)")
}

private func workOf(_ step: TextStep) -> Int {
    if let program = step.program { return program.cost }
    switch step.op {
    case .replace, .substitute, .prefix, .prefixFirst: return utf8(step.strings[0]).count
    default: return 1
    }
}

/// How many times longer a step may make a text, in bytes.
private func growthOf(_ step: TextStep) -> Int {
    let sizes = step.strings.map { utf8($0).count }
    switch step.op {
    case .replace, .substitute: return max(1, (sizes[1] + sizes[0] - 1) / sizes[0])
    case .replaceMatches: return max(1, sizes[0])
    case .prepend, .prefix, .prefixFirst: return 1 + sizes[0]
    case .nfc: return 3
    case .bytes: return 2
    case .split: return 1
    }
}

private func textStep(
    _ record: [Int], _ strings: TokenizerStrings, _ programs: [Program], _ classes: Int
) throws -> TextStep {
    let (a, b, c) = (record[1], record[2], record[3])
    guard let op = StepOp(rawValue: record[0]) else { throw tokenizerError("step", "\(record[0]) is not a step") }
    if op == .nfc {
        try requireSound(a < classes, "step", "a step names a class that does not exist")
        return TextStep(op: op, codeClass: a)
    }
    let hasProgram = op == .replaceMatches || op == .split
    try requireSound(!hasProgram || a < programs.count, "step", "a step names a program that does not exist")
    if op == .split {
        guard let behaviour = SplitBehaviour(rawValue: b), c < 2 else {
            throw tokenizerError("step", "a split has an unknown behaviour")
        }
        return TextStep(op: op, program: programs[a], behaviour: behaviour, invert: c == 1)
    }
    let used: [Int]
    switch op {
    case .prepend, .prefix, .prefixFirst: used = [a]
    case .replaceMatches: used = [b]
    case .bytes: used = []
    default: used = [a, b]
    }
    try requireSound(used.allSatisfy { $0 < strings.count }, "step", "a step names a string that does not exist")
    let texts = used.map { strings[$0] }
    let isSearched = [.replace, .substitute, .prefix, .prefixFirst].contains(op)
    try requireSound(!isSearched || !texts[0].isEmpty, "step", "a step looks for an empty string")
    return TextStep(op: op, strings: texts, program: hasProgram ? programs[a] : nil)
}
