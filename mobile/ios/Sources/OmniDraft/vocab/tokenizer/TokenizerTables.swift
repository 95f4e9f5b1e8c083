// The checked contents of a compiled tokenizer (spec/02-tokenizer.md), as values.

let noId: Int32 = -1  // in place of an id

extension StepOp {
    var isNormaliser: Bool { rawValue <= StepOp.replaceMatches.rawValue }
}

struct AddedToken: Sendable {
    let id: Int32
    /// What a text is compared with; normalized already where the flag `normalized` is set.
    let content: [UInt32]
    let flags: Int
}

/// A step with its arguments looked up; those that its `op` does not have keep their defaults.
struct TextStep: Sendable {
    let op: StepOp
    /// Its strings, as code points.
    var strings: [[UInt32]] = []
    /// Of a split, or of `replaceMatches`.
    var program: Program?
    /// Of NFC.
    var codeClass = 0
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
    let flags: Int
    /// `noId` where there is none.
    let unknownId: Int32
    /// `noId` where there is none.
    let bosId: Int32
    /// The class of the letters of words; `noId` where no added token needs it.
    let wordClass: Int32
    /// Id i has the text `text[offsets[i]..<offsets[i + 1]]`.
    let offsets: IntTable
    let text: Bytes
    let roles: IntTable
    /// Ids of the model's pieces by ascending text.
    let sortedIds: IntTable
    let mergeKeys: LongTable
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
