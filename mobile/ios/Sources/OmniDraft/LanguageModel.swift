import Foundation

/// The models of an opened bundle: any number of sessions share them, from any tasks.
///
/// The actor owns the models; sessions keep them alive. Their memory is free again when the actor and all of its
/// sessions are gone.
public actor LanguageModel {
    /// That it runs without the drafter, or on the CPU instead of another provider.
    public nonisolated let notices: [Notice]

    private let loaded: LoadedBundle
    private let publicKey: [UInt8]?
    // A session reads its cache and its adapter, and makes its buffers: too long for a thread of Swift's own.
    private let worker = Worker("model")

    init(_ loaded: LoadedBundle, publicKey: [UInt8]?) {
        self.loaded = loaded
        self.publicKey = publicKey
        notices = loaded.notices
    }

    /// A session with KV buffers and an n-gram cache of its own.
    ///
    /// - Parameter options: what it begins with.
    /// - Returns: the session.
    /// - Throws: ``OmniDraftError/adapter(_:)``: the adapter is refused. ``OmniDraftError/setting(_:)``: a place is not
    ///   on this device. ``OmniDraftError/bundle(_:)``: there is no memory for its buffers (fault `memory`).
    public func session(_ options: SessionOptions = SessionOptions()) async throws -> TextSession {
        let (loaded, publicKey) = (loaded, publicKey)
        return try await worker.run { try TextSession(loaded, options, publicKey: publicKey) }
    }
}
