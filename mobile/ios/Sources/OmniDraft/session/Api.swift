// Text in, text out: load a bundle and stream text. The public interface is a layer on these functions.

private let megabyte = 1_000_000

/// Loads a bundle as an app asks for it. Where the memory is too small for both models, it is loaded without the
/// drafter; where the provider cannot be used, on the CPU. The notices of the bundle say so.
///
/// - Throws: ``OmniDraftError``: the bundle is refused, or needs more memory than there is (fault `memory`).
func openLoaded(
    _ directory: String, options: LoadOptions, engine: any InferenceEngine, measureSeconds: Double = usualMeasureSeconds
) throws -> LoadedBundle {
    let state = StateDirectory(root: try options.state.map { try pathOf($0, "state") })
    let bundle = try openBundle(directory, publicKey: options.publicKey, verify: .auto, state: state)
    let needed = memoryNeed(bundle, drafter: false).total
    if let free = options.freeMemory, needed > free {
        let name = split(bundle.path).name
        let message = "\(name) needs \(needed / megabyte) MB without the drafter, and \(free / megabyte) MB are free"
        throw bundleError("memory", message, "export it with a smaller --max-length, or use a smaller model")
    }
    let both = memoryNeed(bundle).total
    let plain = options.withDrafter ? whyPlain(needed: both, plain: needed, available: options.freeMemory) : nil
    let isThere = options.provider.isThere(engine)
    let absent = "this engine was built without \(options.provider.rawValue); use one that has it, or the CPU"
    var loading = Loading(engine: engine)
    loading.threads = options.threads
    loading.drafter = options.withDrafter && plain == nil
    loading.provider = isThere ? options.provider : .cpu
    loading.state = state
    loading.measureSeconds = measureSeconds
    loading.notices = notices(withoutDrafter: plain, notOn: isThere ? nil : absent)
    do {
        return try loadBundle(bundle, loading)
    } catch OmniDraftError.bundle(let refusal) where loading.provider != .cpu {
        loading.provider = .cpu
        loading.notices = notices(withoutDrafter: plain, notOn: "\(refusal.message); use the CPU")
        return try loadBundle(bundle, loading)
    }
}

private func notices(withoutDrafter: String?, notOn: String?) -> [Notice] {
    let plain = withoutDrafter.map { Notice(kind: .noDrafter, message: $0) }
    let onCpu = notOn.map { Notice(kind: .onCpu, message: "running on the CPU: \($0)") }
    return [plain, onCpu].compactMap { $0 }
}

extension ExecutionProvider {
    func isThere(_ engine: any InferenceEngine) -> Bool {
        switch self {
        case .cpu: return true
        case .xnnpack: return engine.providers.contains { isSame($0, "XnnpackExecutionProvider") }
        }
    }

    /// Kernels that a graph is opened with; nil for the engine's own.
    var kernels: EngineProvider? { self == .cpu ? nil : EngineProvider(rawValue) }
}
