import Foundation

/// What a session begins with.
public struct SessionOptions: Sendable {
    /// A file of learned n-grams; where it is absent or refused, the session begins with an empty cache.
    public var cache: URL?
    /// A directory to record generations in, once learning is on; text included.
    public var traces: URL?
    /// An adapter of the drafter or of the target.
    public var adapter: URL?
    /// A directory for what is learned here and pulled; nil: beside ``traces``, with `.learned` behind its name.
    public var learned: URL?
    /// Whether a conversation leaves out its oldest turns where the context is too small for all of them and an answer; the
    /// system prompt stays. Else such a message is refused.
    public var dropsOldest: Bool

    /// What a session begins with; each place is a URL of a file.
    public init(
        cache: URL? = nil, traces: URL? = nil, adapter: URL? = nil, learned: URL? = nil, dropsOldest: Bool = false
    ) {
        self.dropsOldest = dropsOldest
        self.cache = cache
        self.traces = traces
        self.adapter = adapter
        self.learned = learned
    }
}
