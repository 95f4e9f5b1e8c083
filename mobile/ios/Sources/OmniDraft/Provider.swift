/// Where the models run.
///
/// A provider other than the CPU needs an engine that was built with it. Where it is absent, the models run on the CPU,
/// and the model's notice says why.
public enum Provider: String, Sendable, CaseIterable {
    /// The engine's own kernels.
    case cpu
    /// Kernels of XNNPACK where it has them, on the CPU.
    case xnnpack = "XNNPACK"
    /// CoreML for the parts of the graphs that it takes, the CPU for all others; on Apple's systems.
    ///
    /// CoreML gets the options that the manifest has for it. Its kernels may round to 16 bits, so the words can differ
    /// from those of the CPU.
    case coreML = "CoreML"
}
