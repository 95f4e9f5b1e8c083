/// What did not fail and an app should know (spec/08-phones.md, Notices).
public struct Notice: Sendable, Equatable {
    /// What happened.
    public let kind: NoticeKind
    /// The same in one sentence with the values, then what to do about it.
    public let message: String

    /// A notice, such as one that a test of an app makes.
    public init(kind: NoticeKind, message: String) {
        self.kind = kind
        self.message = message
    }
}

/// What a ``Notice`` is about.
public enum NoticeKind: Sendable {
    /// The memory is too small for both models: the bundle runs without its drafter.
    case noDrafter
    /// The models run on the CPU instead of the provider that was asked for.
    case onCpu
    /// The file of n-grams was refused: the cache begins empty.
    case emptyCache
    /// The session that was loaded was saved with another adapter of the drafter.
    case otherAdapter
}
