// Text in, text out: load a bundle and stream text. The public interface is a layer on these functions.

private let megabyte = 1_000_000

/// Where the models run.
///
/// A provider other than the CPU needs an engine that was built with it. Where it is absent, the models run on the CPU,
/// and the notice of the bundle says why.
public enum Provider: String, Sendable {
    /// The engine's own kernels.
    case cpu
    /// Kernels of XNNPACK where it has them, on the CPU.
    case xnnpack = "XNNPACK"
}

/// How a bundle is opened.
public struct OpenOptions: Sendable {
    /// Of the signer, 32 bytes of Ed25519; a bundle that is not signed with it is refused. Nil checks no signature.
    public var publicKey: [UInt8]?
    /// Where the models run.
    public var provider: Provider
    /// Of a target pass; 0: by the target's size. The drafter runs on one.
    public var threads: Int
    /// Whether the drafter is loaded.
    public var withDrafter: Bool
    /// Bytes that the app may still use; where both models would need more, the bundle is opened without the drafter,
    /// and where the target alone would, it is refused (fault `memory`). Nil: not looked at.
    public var freeMemory: Int?
    /// The directory of what the device remembers of its bundles: that they were checked, and how fast they are here
    /// (`omnidraft/state`). Nil remembers nothing, so each opening hashes all files and may measure.
    public var state: String?

    public init(
        publicKey: [UInt8]? = nil, provider: Provider = .cpu, threads: Int = 0, withDrafter: Bool = true,
        freeMemory: Int? = nil, state: String? = nil
    ) {
        self.publicKey = publicKey
        self.provider = provider
        self.threads = threads
        self.withDrafter = withDrafter
        self.freeMemory = freeMemory
        self.state = state
    }
}

/// Loads a bundle as an app asks for it. Where the memory is too small for both models, it is loaded without the
/// drafter; where the provider cannot be used, on the CPU. The notice of the bundle says so.
///
/// - Throws: ``OmniDraftError``: the bundle is refused, or needs more memory than there is (fault `memory`).
func openLoaded(_ directory: String, _ options: OpenOptions, _ engine: any InferenceEngine) throws -> LoadedBundle {
    let state = StateDirectory(root: options.state)
    let bundle = try openBundle(directory, publicKey: options.publicKey, verify: .auto, state: state)
    let needed = memoryNeed(bundle, drafter: false).total
    if let free = options.freeMemory, needed > free {
        let name = split(bundle.path).name
        let message = "\(name) needs \(needed / megabyte) MB without the drafter, and \(free / megabyte) MB are free"
        throw bundleError("memory", message, "use a smaller model")
    }
    let both = memoryNeed(bundle).total
    let plain = options.withDrafter ? whyPlain(needed: both, plain: needed, available: options.freeMemory) : nil
    let isAbsent = options.provider == .xnnpack && !engine.providers.contains { $0.hasPrefix("Xnnpack") }
    let absent = isAbsent ? "running on the CPU: this engine was built without XNNPACK" : nil
    var loading = Loading(engine: engine)
    loading.threads = options.threads
    loading.drafter = options.withDrafter && plain == nil
    loading.provider = options.provider == .xnnpack && !isAbsent ? options.provider.rawValue : nil
    loading.state = state
    loading.notice = sentences([plain, absent])
    do {
        return try loadBundle(bundle, loading)
    } catch OmniDraftError.bundle(let refusal) where loading.provider != nil {
        loading.provider = nil
        loading.notice = sentences([plain, "running on the CPU: \(refusal.message)"])
        return try loadBundle(bundle, loading)
    }
}

private func sentences(_ sentences: [String?]) -> String? {
    let all = sentences.compactMap { $0 }
    return all.isEmpty ? nil : all.joined(separator: "; ")
}
