/// Text that one round made certain.
///
/// A piece has one kind: a round that ends a thought gives two pieces, and the ids are with the first.
public struct Piece: Sendable {
    /// What the text of a piece is.
    public enum Kind: Sendable {
        /// The answer.
        case text
        /// What the model thinks before its answer, with the tags around it.
        case thought
        /// Calls of tools, with the tags around them.
        case call
    }

    /// May be empty.
    public let text: String
    /// Target ids that the round emitted.
    public let tokenIds: [Int32]
    /// How many of them were proposed and accepted.
    public let drafted: Int
    /// What the text is.
    public let kind: Kind

    /// Text of a round, such as one that a test of an app makes.
    public init(text: String, tokenIds: [Int32] = [], drafted: Int = 0, kind: Kind = .text) {
        self.text = text
        self.tokenIds = tokenIds
        self.drafted = drafted
        self.kind = kind
    }
}

extension Piece: CustomStringConvertible {
    /// Its text.
    public var description: String { text }
}
