/// Text that one round made certain.
///
/// A piece is thought or answer, never both: a round that ends a thought gives two pieces, and the ids are with the
/// first.
public struct Piece: Sendable {
    /// May be empty.
    public let text: String
    /// Target ids that the round emitted.
    public let tokenIds: [Int32]
    /// How many of them were proposed and accepted.
    public let drafted: Int
    /// Whether the text is what the model thinks before its answer, with the tags around it.
    public let isThought: Bool

    /// Text of a round, such as one that a test of an app makes.
    public init(text: String, tokenIds: [Int32] = [], drafted: Int = 0, isThought: Bool = false) {
        self.text = text
        self.tokenIds = tokenIds
        self.drafted = drafted
        self.isThought = isThought
    }
}

extension Piece: CustomStringConvertible {
    /// Its text.
    public var description: String { text }
}
