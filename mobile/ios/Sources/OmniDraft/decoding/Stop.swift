// Where an output ends: at an end token or at a stop string, whichever byte comes first (spec/05-stopping.md).

/// The tokens of a round that are output, and whether the output ends with them.
struct Emitted: Sendable, Equatable {
    /// Target ids.
    let tokens: [Int32]
    let ended: Bool
}

/// Says which of a round's tokens are output, and whether the output ends there.
typealias Cut = ([Int32]) -> Emitted

/// Decodes UTF-8 that arrives in pieces: incomplete characters wait; invalid bytes become U+FFFD, one for each maximal
/// subpart. The platform's decoders disagree with this rule, so the table of the chapter is here.
struct Utf8Stream {
    private var point: UInt32 = 0  // of the character that was begun
    private var missing = 0  // bytes that it still lacks; 0 where none was begun
    private var range: ClosedRange<UInt8> = 0x80...0xbf  // of its next byte

    /// The text that is certain so far; an incomplete character is held back.
    mutating func push(_ data: some Sequence<UInt8>) -> String {
        var text = String.UnicodeScalarView()
        for byte in data { take(byte, &text) }
        return String(text)
    }

    /// The text that was held back, at the end of the output.
    mutating func flush() -> String {
        defer { missing = 0 }
        return missing > 0 ? "\u{fffd}" : ""
    }

    private mutating func take(_ byte: UInt8, _ text: inout String.UnicodeScalarView) {
        if missing > 0 {
            if range.contains(byte) {
                point = point << 6 | UInt32(byte & 0x3f)
                expect(missing - 1)
                if missing == 0, let scalar = Unicode.Scalar(point) { text.append(scalar) }
                return
            }
            text.append("\u{fffd}")
            missing = 0
        }
        begin(byte, &text)
    }

    private mutating func begin(_ byte: UInt8, _ text: inout String.UnicodeScalarView) {
        switch byte {
        case 0..<0x80: text.append(Unicode.Scalar(byte))
        case 0xc2...0xdf: expect(1)
        case 0xe0...0xef: expect(2, byte == 0xe0 ? 0xa0 : 0x80, byte == 0xed ? 0x9f : 0xbf)
        case 0xf0...0xf4: expect(3, byte == 0xf0 ? 0x90 : 0x80, byte == 0xf4 ? 0x8f : 0xbf)
        default: text.append("\u{fffd}")
        }
        if missing > 0 { point = UInt32(byte) & (0x3f >> UInt32(missing)) }
    }

    private mutating func expect(_ bytes: Int, _ from: UInt8 = 0x80, _ to: UInt8 = 0xbf) {
        missing = bytes
        range = from...to
    }
}

/// The text of an output as it grows, up to the first stop string.
///
/// The first stop string is the one whose last byte comes first; of several that end with the same byte, the longest.
final class StopText {
    private(set) var matched: String?
    /// Byte of the output at which it begins; nil before.
    private(set) var start: Int?
    private let stops: [[UInt8]]
    private var pending: [UInt8] = []  // bytes that may be the beginning of a stop string
    private var stream = Utf8Stream()
    private var ready = ""
    private var pushed = 0

    /// - Throws: ``OmniDraftError/setting(_:)``: a stop string that is empty.
    init(_ stops: [String] = []) throws {
        if stops.contains(where: \.isEmpty) {
            throw settingError("a stop string is empty, which would end every output", "give some text")
        }
        self.stops = stops.map { Array($0.utf8) }
    }

    /// Take in the bytes of one token; true when they complete a stop string, which ends the output.
    func push(_ data: [UInt8]) -> Bool {
        precondition(start == nil)
        if stops.isEmpty {
            ready += stream.push(data)
            return false
        }
        for byte in data where complete(byte) { return true }
        release(pending.count - (stops.map(overlap).max() ?? 0))
        return false
    }

    /// Take in one byte; true when it completes a stop string.
    private func complete(_ byte: UInt8) -> Bool {
        pending.append(byte)
        pushed += 1
        let ending = stops.filter { pending.suffix($0.count).elementsEqual($0) }
        guard let match = ending.max(by: { $0.count < $1.count }) else { return false }
        pending.removeLast(match.count)
        matched = String(decoding: match, as: UTF8.self)
        start = pushed - match.count
        return true
    }

    /// Length of the longest end of the pending bytes that a stop string begins with and goes on from.
    private func overlap(_ stop: [UInt8]) -> Int {
        let most = min(pending.count, stop.count - 1)
        return stride(from: most, to: 0, by: -1).first { pending.suffix($0).elementsEqual(stop.prefix($0)) } ?? 0
    }

    /// The text that became certain since the last call.
    func take() -> String {
        defer { ready = "" }
        return ready
    }

    /// The text that was held back; a half character at the end becomes U+FFFD, as in any decoding.
    func end() -> String {
        release(pending.count)
        return take() + stream.flush()
    }

    private func release(_ count: Int) {
        ready += stream.push(pending.prefix(count))
        pending.removeFirst(count)
    }
}

/// The tokens of a round up to the first that ends the output, which is included, and whether one does.
///
/// The bytes of the tokens go into `text`; an end token writes nothing.
func cutAtStop(_ tokens: [Int32], eosIds: Set<Int32>, text: StopText, bytesOf: (Int32) -> [UInt8]) -> Emitted {
    for (index, token) in tokens.enumerated() where eosIds.contains(token) || text.push(bytesOf(token)) {
        return Emitted(tokens: Array(tokens[...index]), ended: true)
    }
    return Emitted(tokens: tokens, ended: false)
}

/// A cut at the first end-of-sequence token; what was accepted after it is not output.
func cutAtEos(_ eosIds: Set<Int32>) -> Cut {
    { tokens in
        guard let at = tokens.firstIndex(where: eosIds.contains) else { return Emitted(tokens: tokens, ended: false) }
        return Emitted(tokens: Array(tokens[...at]), ended: true)
    }
}

/// How many tokens lie entirely before byte `start`, and how many bytes of the next token do.
func wholeTokens(_ lengths: [Int], _ start: Int) -> (tokens: Int, bytes: Int) {
    var left = start
    for (index, length) in lengths.enumerated() {
        if length > left { return (index, left) }
        left -= length
    }
    return (lengths.count, 0)
}
