import Foundation

/// How a bundle is opened.
public struct LoadOptions: Sendable {
    /// Of the signer, 32 bytes of Ed25519, or the 44 bytes that a PEM file holds in Base64; a bundle that is not signed
    /// with it is refused. Nil checks no signature.
    public var publicKey: [UInt8]?
    /// Where the models run.
    public var provider: ExecutionProvider
    /// Of a target pass; 0: those that it is fastest with on this device, which are found out where there is a ``state``.
    /// The drafter runs on one.
    public var threads: Int
    /// Whether the drafter is loaded.
    public var withDrafter: Bool
    /// Bytes that the app may still use; where both models would need more, the bundle is opened without the drafter,
    /// and where the target alone would, it is refused (fault `memory`). Nil: not looked at.
    public var freeMemory: Int?
    /// The directory of what the device remembers of its bundles: that they were checked, and how fast they are here
    /// (`omnidraft/state`). Nil remembers nothing, so each opening hashes all files and may measure.
    public var state: URL?

    /// How a bundle is opened; what is left out is the usual.
    public init(
        publicKey: [UInt8]? = nil, provider: ExecutionProvider = .cpu, threads: Int = 0, withDrafter: Bool = true,
        freeMemory: Int? = nil, state: URL? = nil
    ) {
        self.publicKey = publicKey
        self.provider = provider
        self.threads = threads
        self.withDrafter = withDrafter
        self.freeMemory = freeMemory
        self.state = state
    }
}
