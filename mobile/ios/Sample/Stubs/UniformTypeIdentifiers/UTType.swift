// Kinds of files.

public struct UTType: Hashable, Sendable {
    public static let zip = UTType()
}
