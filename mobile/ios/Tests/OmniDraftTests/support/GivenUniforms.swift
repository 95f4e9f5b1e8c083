@testable import OmniDraft

/// The runtime's own random source, on uniforms that are given; all of them must be taken, and none more.
final class GivenUniforms: SplitMix64 {
    private let uniforms: [Double]
    private var taken = 0

    init(_ uniforms: [Double]) {
        self.uniforms = uniforms
        super.init(0)
    }

    override func uniform() -> Double {
        defer { taken += 1 }
        return taken < uniforms.count ? uniforms[taken] : 0  // one too many is seen by `finish`
    }

    func finish() throws { try same("the number of uniforms that were taken", taken, uniforms.count) }
}
