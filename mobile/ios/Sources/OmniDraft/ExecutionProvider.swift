/// Where the models run.
///
/// A provider other than the CPU needs an engine that was built with it. Where it is absent, the models run on the CPU,
/// and a notice says why (``LanguageModel/notices``).
public enum ExecutionProvider: String, Sendable, CaseIterable {
    /// The engine's own kernels.
    case cpu
    /// Kernels of XNNPACK where it has them, on the CPU.
    case xnnpack = "XNNPACK"
}
