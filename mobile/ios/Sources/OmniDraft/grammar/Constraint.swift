// A text that must belong to a grammar, while it is decoded (spec/17-grammar.md).

/// What keeps drafts inside the grammar.
struct DraftSide {
    /// Of the drafter's tokens.
    let masks: TokenMasks
    /// Whether the drafter may propose each draft id at all.
    let allowed: [Bool]
    /// The bytes of a draft id.
    let bytesOf: (Int32) -> [UInt8]
}

/// Where an output is in its grammar, and what may follow.
///
/// The target's distribution at each token is p restricted to the ids that ``TokenMasks`` allows, before the sampling
/// settings are applied.
final class Constraint {
    /// Whether the text is complete, and nothing may follow.
    private(set) var isComplete = false
    private var at = Configuration.start
    private let masks: TokenMasks
    private let bytesOf: (Int32) -> [UInt8]
    private let proposes: Bool
    private let draft: DraftSide?

    /// - Parameters:
    ///   - masks: of the target's tokens.
    ///   - bytesOf: the bytes of a target id; none for a control token.
    ///   - proposes: whether tokens of bytes that the grammar fixes are proposed.
    ///   - draft: nil where no drafter proposes.
    init(
        _ masks: TokenMasks, bytesOf: @escaping (Int32) -> [UInt8], proposes: Bool = false, draft: DraftSide? = nil
    ) {
        self.masks = masks
        self.bytesOf = bytesOf
        self.proposes = proposes
        self.draft = draft
    }

    /// Whether ``draftMask(_:)`` may be asked.
    var masksDrafts: Bool { draft != nil }

    /// Refuses a room that may be too small.
    ///
    /// - Parameter room: tokens that may be emitted.
    /// - Throws: ``OmniDraftError/grammar(_:)`` `room`: they may be too few for any text but the empty one, which has no end
    ///   token.
    func checkRoom(_ room: Int) throws {
        let least = Int(masks.bound(at))
        if least > room {
            let message = "the shortest text of the grammar takes up to \(least) tokens, and there is room for \(room)"
            throw grammarError("room", message, "raise maxNewTokens, or shorten the prompt")
        }
        if masks.mask(at, room: room) == nil {
            let message = "the only text of the grammar that has room is empty, and the target has no end token"
            throw grammarError("room", message, "raise maxNewTokens, or use another grammar")
        }
    }

    /// The allowed ids behind 0, 1, ... proposed tokens; nil behind tokens that leave or end the text.
    ///
    /// - Parameter room: tokens that may still be emitted before the first of them.
    func rows(_ proposed: [Int32], room: Int) -> (Int) -> Mask? {
        var places: [Configuration?] = [at]
        for token in proposed { places.append(places.last.flatMap { behind($0, token) }) }
        return { row in places[row].flatMap { self.masks.mask($0, room: room - row) } }
    }

    /// Tokens of the bytes that the grammar fixes next, and how many of them nothing else may replace.
    ///
    /// - Parameter most: tokens at most.
    func fixed(_ most: Int) -> (tokens: [Int32], certain: Int) {
        if !proposes { return ([], 0) }
        var (place, tokens) = (at, [Int32]())
        while tokens.count < most, let token = masks.certain(place)?.token, let behind = behind(place, token) {
            tokens.append(token)
            place = behind
        }
        return (validStart(Array((tokens + masks.spelled(place)).prefix(most))), tokens.count)
    }

    /// How many of the first proposed tokens are the only ones that may stand there.
    ///
    /// - Parameter room: tokens that may still be emitted before the first of them.
    func certain(_ proposed: [Int32], room: Int) -> Int {
        var place = at
        for (index, token) in proposed.enumerated() {
            guard let alone = masks.certain(place), alone.token == token, alone.bound < room - index,
                let behind = behind(place, token)
            else { return index }
            place = behind
        }
        return proposed.count
    }

    /// The first of some tokens, as many as stay in the grammar.
    func validStart(_ tokens: [Int32]) -> [Int32] {
        var place: Configuration? = at
        return Array(
            tokens.prefix {
                place = behind(place, $0)
                return place != nil
            })
    }

    /// The draft ids that may follow a draft; nil where none may.
    func draftMask(_ drafted: [Int32]) -> Mask? {
        guard let draft else { preconditionFailure("no drafter proposes in this text") }
        let place = drafted.reduce(at as Configuration?) { place, token in
            place.flatMap { draft.masks.grammar.read($0, draft.bytesOf(token)) }
        }
        guard let mask = place.flatMap({ draft.masks.mask($0, room: .max) }) else { return nil }
        return draft.allowed.indices.contains { draft.allowed[$0] && mask.allows(Int32($0)) } ? mask : nil
    }

    /// Goes on behind emitted tokens.
    ///
    /// - Parameter room: tokens that might be emitted before the first of them.
    /// - Returns: the tokens up to the one behind which no other may follow, and whether there is such a one.
    func advance(_ emitted: [Int32], room: Int) -> Emitted {
        for (index, token) in emitted.enumerated() {
            guard let behind = behind(at, token) else {  // an end token
                return Emitted(tokens: Array(emitted[...index]), ended: true)
            }
            at = behind
            isComplete = masks.isLast(behind, room: room - index - 1)
            if isComplete { return Emitted(tokens: Array(emitted[...index]), ended: true) }
        }
        return Emitted(tokens: emitted, ended: false)
    }

    private func behind(_ place: Configuration?, _ token: Int32) -> Configuration? {
        place.flatMap { masks.behind($0, token, bytesOf(token)) }
    }
}
