// The format of a compiled tokenizer, version 1 (spec/02-tokenizer.md): its numbers, sections and values.

/// The first bytes of every version.
let tokenizerMagic = Array("ODTOKENS".utf8)
/// The version that this runtime reads.
let tokenizerVersion = 1

/// The sections in their order; the raw value is the name.
enum TokenizerSection: String, CaseIterable, Sendable {
    case offsets, text, roles, sorted
    case mergeKeys = "merge_keys"
    case mergeValues = "merge_values"
    case byteIds = "byte_ids"
    case modelBytes = "model_bytes"
    case stringOffsets = "string_offsets"
    case strings, added, ranges, masks, code, programs, steps

    /// Bytes of an entry.
    var entryBytes: Int {
        switch self {
        case .text, .roles, .strings: return 1
        case .mergeKeys, .masks, .programs: return 8
        case .added, .code: return 12
        case .steps: return 16
        default: return 4
        }
    }
}

let tableAt = 80  // start and bytes of each section
let sectionsStart = 208  // of the first section: a multiple of 8, as every start is
let mostTokenizerBytes = 1 << 30
let mostIds = 1 << 22
let mostMerges = 1 << 23
let mostByteTokens = 1 << 10
let mostStrings = 1 << 16
let mostString = 1 << 12  // bytes
let mostSteps = 64
let mostPrograms = 64
let mostCode = 1 << 13
let mostProgram = 512
let mostClasses = 64
let mostGrowth = 64  // times that steps may lengthen a text, in bytes
let mostWork = 2048  // units of work for each byte of a text
let noId: Int32 = -1  // in place of an id

/// Properties of the model, a bit each.
enum ModelFlag {
    /// A word that is a piece is that piece, whatever the merges give.
    static let ignoreMerges = 1
    /// A code point without a piece is written byte by byte.
    static let byteFallback = 2
    /// Neighbouring code points without a piece are one unknown token.
    static let fuseUnknown = 4
}

/// What an id is, and so which bytes it writes.
enum TokenRole: Int32, Sendable {
    /// No bytes.
    case unused
    /// Its text; in a SentencePiece vocabulary U+2581 is a space.
    case piece
    /// The byte NN of its text `<0xNN>`.
    case byte
    /// No bytes.
    case control
    /// Its text.
    case added
}

/// Properties of an added token, a bit each.
enum AddedFlag {
    static let control = 1
    static let lstrip = 2
    static let rstrip = 4
    static let normalized = 8
    static let singleWord = 16
}

/// A step of the normaliser (1 to 4) or of the pre-tokenizer (5 to 9); its arguments are a, b and c.
enum StepOp: Int, Sendable {
    /// NFC of the runs of code points of class a.
    case nfc = 1
    /// String a in front, where the text is not empty.
    case prepend
    /// String a by string b.
    case replace
    /// The matches of program a by string b.
    case replaceMatches
    /// Each word by program a, with behaviour b; with c = 1 matches and other text change places.
    case split
    /// String a by string b in each word.
    case substitute
    /// String a in front of each word that does not begin with it.
    case prefix
    /// The same, where the word is the beginning of the text.
    case prefixFirst
    /// Each byte of a word becomes its letter of the GPT-2 alphabet.
    case bytes

    /// Whether the step belongs to the normaliser.
    var isNormaliser: Bool { rawValue <= StepOp.replaceMatches.rawValue }
}

/// What a split does with its matches; in the order of their numbers.
enum SplitBehaviour: Int, Sendable {
    case removed, isolated, mergedWithPrevious, mergedWithNext, contiguous
}

/// An added token.
struct AddedToken: Sendable {
    let id: Int32
    /// What a text is compared with; normalized already where the flag `normalized` is set.
    let content: [UInt32]
    /// Of ``AddedFlag``.
    let flags: Int
}

/// A step with its arguments looked up; those that its `op` does not have keep their defaults.
struct TextStep: Sendable {
    /// What the step does.
    let op: StepOp
    /// Its strings, as code points.
    var strings: [[UInt32]] = []
    /// Of a split, or of `replaceMatches`.
    var program: Program?
    /// Of NFC.
    var codeClass = 0
    /// Of a split.
    var behaviour = SplitBehaviour.removed
    /// Of a split.
    var invert = false
}

/// What the pieces of a tokenizer are made of.
enum TokenizerKind: Int, Sendable {
    case byteLevel, sentencePiece
}

/// The checked contents of a file. The large tables are views of the mapped file.
struct TokenizerTables: Sendable {
    /// Of the vocabulary, as its writer computed it.
    let fingerprint: String
    /// What the pieces are made of.
    let kind: TokenizerKind
    /// Of ``ModelFlag``.
    let flags: Int
    /// `noId` where there is none.
    let unknownId: Int32
    /// `noId` where there is none.
    let bosId: Int32
    /// The class of the letters of words; `noId` where no added token needs it.
    let wordClass: Int32
    /// Id i has the text `text[offsets[i]..<offsets[i + 1]]`.
    let offsets: IntTable
    /// The bytes of all ids.
    let text: Bytes
    /// Of each id.
    let roles: IntTable
    /// Ids of the model's pieces by ascending text.
    let sortedIds: IntTable
    /// Of ``MergeTable``.
    let mergeKeys: LongTable
    /// Of ``MergeTable``.
    let mergeValues: IntTable
    /// The id that writes each byte alone.
    let byteIds: [Int32]
    /// Byte-level: the id of the piece of each byte; SentencePiece: the id of its byte token.
    let modelBytes: [Int32]
    /// Control tokens and other added tokens; of each sort a content is there once.
    let added: [AddedToken]
    /// Code points from `ranges[i]` to before `ranges[i + 1]` are in the classes of `masks[i]`.
    let ranges: IntTable
    /// Of each range, a bit for each class.
    let masks: LongTable
    /// Of the normaliser, then of the pre-tokenizer.
    let steps: [TextStep]

    /// The text of an id: its piece, or its content.
    func textOf(_ id: Int) -> [UInt8] { text.array(Int(offsets[id]), Int(offsets[id + 1])) }

    /// Whether the text of an id comes before some bytes (-1), is equal (0) or comes behind them (1).
    func compareText(_ id: Int, _ data: [UInt8]) -> Int {
        let start = Int(offsets[id])
        let size = Int(offsets[id + 1]) - start
        for index in 0..<min(size, data.count) {
            let byte = text[start + index]
            if byte != data[index] { return byte < data[index] ? -1 : 1 }
        }
        return size == data.count ? 0 : size < data.count ? -1 : 1
    }
}
