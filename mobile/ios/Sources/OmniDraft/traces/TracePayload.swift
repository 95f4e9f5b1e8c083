// Payloads of the entries of a trace's file: the beginning of a record, and a round (spec/12-trace.md).

/// The modes of generation; a file has their indices.
let traceModes = ["trie", "match", "direct", "paper", "lookup", "plain"]

private let startBytes = 72  // digests, mode, continues, reserved, skipped
private let tokenBytes = 24  // id, accepted, ids of distribution and roots, reserved, four numbers
private let digestBytes = 32
private let rounding = 1.0 / 256  // more than 64 roundings to float16 can add up to
private let noDigest = String(repeating: "0", count: 2 * digestBytes)
private let narrow = 1 << 16

/// The sizes of both vocabularies, which give the width of ids: 2 bytes up to 65,536 ids, else 4.
struct PayloadLayout {
    let draftSize: Int
    let targetSize: Int

    /// The layout of the ids of some vocabularies.
    init(_ vocabularies: Vocabularies) {
        draftSize = vocabularies.draftSize
        targetSize = vocabularies.targetSize
    }

    /// Bytes of a draft id.
    var draftBytes: Int { draftSize <= narrow ? 2 : 4 }
    /// Bytes of a target id.
    var targetBytes: Int { targetSize <= narrow ? 2 : 4 }
}

/// The payload of a record's beginning.
///
/// - Throws: ``ValueError``: a digest is not hexadecimal.
func encodeStart(_ start: TraceStart, _ layout: PayloadLayout) throws -> [UInt8] {
    guard let mode = traceModes.firstIndex(of: start.mode) else { throw ValueError("there is no mode \(start.mode)") }
    let out = ByteWriter()
    for digest in [start.drafterAdapter, start.targetAdapter] { out.put(try bytesOf(hex: digest ?? noDigest)) }
    out.u8(mode).u8(start.continues ? 1 : 0).u16(0).u32(start.skipped)
    out.ids(start.context, layout.draftBytes)
    return out.bytes
}

func encodeRound(_ traced: TracedRound, _ layout: PayloadLayout) -> [UInt8] {
    let out = ByteWriter()
    for token in traced.tokens { out.token(token, layout) }
    return out.bytes
}

extension ByteWriter {
    fileprivate func token(_ token: TracedToken, _ layout: PayloadLayout) {
        i32(token.tokenId).u8(token.accepted ? 1 : 0)
        count(token.distribution.ids.count).count(token.roots.ids.count).u8(0)
        for number in [token.surprisal, token.distribution.rest, token.roots.rest, token.unspelled] {
            f32(Float(number))
        }
        masses(token.distribution, layout.targetBytes)
        masses(token.roots, layout.draftBytes)
    }

    private func masses(_ masses: Masses, _ width: Int) {
        ids(masses.ids, width)
        for probability in masses.probabilities { u16(Int(halfOf(probability))) }
    }

    fileprivate func ids(_ ids: [Int32], _ width: Int) {
        for id in ids { if width == 2 { u16(Int(id)) } else { i32(id) } }
    }

    /// A number that a byte of the format holds; a distribution lists no more ids.
    private func count(_ count: Int) -> ByteWriter {
        precondition(count >= 0 && count <= 255)
        return u8(count)
    }
}

/// The beginning of a record in its payload.
///
/// - Throws: ``OmniDraftError/traceFile(_:)`` with the name of the fault.
func decodeStart(_ data: Bytes, _ layout: PayloadLayout) throws -> TraceStart {
    var cursor = Cursor(data)
    let at = try cursor.take(startBytes)
    let (mode, continues) = (data.u8(at + 64), data.u8(at + 65))
    let reserved = data.u16(at + 66)
    try demandTrace(reserved == 0, "reserved", "the reserved field of a record is \(reserved), not 0")
    try demandTrace(mode < traceModes.count, "kind", "it has a mode \(mode), outside 0..\(traceModes.count - 1)")
    try demandTrace(continues < 2, "kind", "it has a record that continues \(continues), neither 0 nor 1")
    let skipped = data.u32(at + 68)
    let context = try cursor.window(skipped, layout)
    return TraceStart(
        drafterAdapter: digest(data, at), targetAdapter: digest(data, at + digestBytes), mode: traceModes[mode],
        continues: continues == 1, skipped: skipped, context: context)
}

/// The round in its payload.
///
/// - Throws: ``OmniDraftError/traceFile(_:)`` with the name of the fault.
func decodeRound(_ data: Bytes, _ layout: PayloadLayout) throws -> TracedRound {
    var cursor = Cursor(data)
    try demandTrace(cursor.left > 0, "counts", "a round emitted nothing")
    var tokens: [TracedToken] = []
    while cursor.left > 0 { tokens.append(try cursor.token(layout)) }
    let later = tokens.drop { $0.accepted }
    try demandTrace(!later.contains { $0.accepted }, "counts", "a token was accepted after one that was not")
    return TracedRound(tokens: tokens)
}

/// Reads fields from the front of a payload.
private struct Cursor {
    private let data: Bytes
    private var at = 0

    init(_ data: Bytes) { self.data = data }

    var left: Int { data.count - at }

    /// Where the next bytes begin; they count as read.
    mutating func take(_ count: Int) throws -> Int {
        try demandTrace(count <= left, "length", "an entry lacks \(count - left) bytes")
        defer { at += count }
        return at
    }

    /// Ids as they are in the file, unchecked.
    private mutating func ids(_ count: Int, _ width: Int) throws -> [UInt32] {
        let begin = try take(count * width)
        return (0..<count).map { width == 2 ? UInt32(data.u16(begin + 2 * $0)) : UInt32(data.u32(begin + 4 * $0)) }
    }

    mutating func draftIds(_ count: Int, _ layout: PayloadLayout) throws -> [Int32] {
        let ids = try ids(count, layout.draftBytes)
        let largest = Int(ids.max() ?? 0)
        try demandTrace(largest < layout.draftSize, "id_range", "it holds draft id \(largest) of \(layout.draftSize)")
        return ids.map { Int32($0) }  // below 2^31, by the size of a vocabulary
    }

    mutating func window(_ skipped: Int, _ layout: PayloadLayout) throws -> [Int32] {
        let (count, extra) = left.quotientAndRemainder(dividingBy: layout.draftBytes)
        try demandTrace(extra == 0, "length", "a record has \(extra) bytes too many")
        try demandTrace(
            count <= Defaults.traceWindow, "limits",
            "a record begins with \(count) draft ids, more than \(Defaults.traceWindow)")
        let fits = skipped == 0 || count == Defaults.traceWindow
        try demandTrace(fits, "limits", "a record keeps \(count) draft ids and leaves some out")
        return try draftIds(count, layout)
    }

    mutating func token(_ layout: PayloadLayout) throws -> TracedToken {
        let at = try take(tokenBytes)
        let (token, accepted, reserved) = (data.u32(at), data.u8(at + 4), data.u8(at + 7))
        let (surprisal, unspelled) = (data.f32(at + 8), data.f32(at + 20))
        try demandTrace(reserved == 0, "reserved", "the reserved field of a token is \(reserved), not 0")
        try demandTrace(token < layout.targetSize, "id_range", "it holds target id \(token) of \(layout.targetSize)")
        try demandTrace(accepted < 2, "kind", "it has a token that was accepted \(accepted), neither 0 nor 1")
        try demandTrace(isNumber(surprisal), "number", "it has a surprisal of \(surprisal)")
        try demandTrace(isShare(unspelled), "number", "it has an unspelled mass of \(unspelled)")
        let distribution = try masses(
            data.u8(at + 5), layout.targetBytes, of: layout.targetSize, rest: data.f32(at + 12), beside: 0)
        let roots = try masses(
            data.u8(at + 6), layout.draftBytes, of: layout.draftSize, rest: data.f32(at + 16), beside: unspelled)
        return TracedToken(
            tokenId: Int32(token), surprisal: Double(surprisal), accepted: accepted == 1, distribution: distribution,
            roots: roots, unspelled: Double(unspelled))
    }

    /// A distribution; `rest` is the mass of the other ids of the vocabulary, `beside` the mass outside the distribution.
    private mutating func masses(
        _ count: Int, _ width: Int, of size: Int, rest: Float, beside: Float
    ) throws -> Masses {
        let ids = try ids(count, width)
        let halves = try take(count * 2)
        let probabilities = (0..<count).map { floatOf(half: UInt16(data.u16(halves + 2 * $0))) }
        let ascend = zip(ids, ids.dropFirst()).allSatisfy { $0 < $1 }
        try demandTrace(ascend, "order", "the ids of a distribution do not ascend")
        if let last = ids.last { try demandTrace(Int(last) < size, "id_range", "it holds id \(last) of \(size)") }
        // As a comparison that NaN fails too.
        let right = probabilities.allSatisfy { Double($0) >= Defaults.traceFloor && $0 <= 1 }
        try demandTrace(right, "number", "a distribution has a probability outside 2^-14 to 1")
        try demandTrace(isShare(rest), "number", "it has a rest of \(rest)")
        let whole = probabilities.reduce(0.0) { $0 + Double($1) } + Double(rest) + Double(beside)
        try demandTrace(abs(whole - 1) <= rounding, "mass", "the masses of a distribution add up to \(whole), not 1")
        return Masses(ids: ids.map { Int32($0) }, probabilities: probabilities, rest: Double(rest))
    }
}

/// Refuse a file with the name of a fault unless a condition holds.
func demandTrace(_ holds: Bool, _ fault: String, _ message: @autoclosure () -> String) throws {
    if !holds { throw traceError(fault, message()) }
}

private func digest(_ data: Bytes, _ at: Int) -> String? {
    let digest = hexOf(data.array(at, at + digestBytes))
    return digest == noDigest ? nil : digest
}

/// Whether a number is finite, not negative and not -0: each number is written in one way.
private func isNumber(_ number: Float) -> Bool { number >= 0 && number < .infinity && number.sign == .plus }

private func isShare(_ number: Float) -> Bool { isNumber(number) && number <= 1 }
