/// Why an output ended (spec/05-stopping.md); the raw value is the name in session files, which have no ``complete``.
public enum StopReason: String, Sendable {
    /// At an end token.
    case eos
    /// At a stop string.
    case stop
    /// The text of a grammar is whole, and nothing may follow (spec/17-grammar.md).
    case complete
    /// At the number of tokens that was asked for.
    case length
    /// The context is full.
    case context
    /// The caller cancelled it.
    case cancelled
}
