import Foundation
import OmniDraft

/// What one text was written with, without drafts and with them: a line of JSON for a developer's table.
struct Benchmark: Encodable {
    /// Model and system.
    let device = machine() + ", " + ProcessInfo.processInfo.operatingSystemVersionString
    let cores = ProcessInfo.processInfo.activeProcessorCount
    let bundle: String
    /// How the target's weights are stored, as in the bundle's manifest: `fp32`, `int8`, `int4`.
    let form: String
    /// Without the reading of the prompt; nil where nothing was measured.
    let plainTokensPerSecond: Double?
    let draftedTokensPerSecond: Double?
    let tokensPerTargetPass: Double
    let acceptance: Double
    let peakMemory: Int?
    /// The throttle level, 0 to 3.
    let heat: Int

    init(bundle: String, form: String, plain: Stats, drafted: Stats, heat: Int) {
        (self.bundle, self.form, self.heat) = (bundle, form, heat)
        (plainTokensPerSecond, draftedTokensPerSecond) = (speed(plain), speed(drafted))
        tokensPerTargetPass = hundredths(drafted.tokensPerTargetPass)
        acceptance = hundredths(drafted.acceptance)
        peakMemory = drafted.peakMemory
    }

    /// The line.
    func line() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }
}

private func speed(_ stats: Stats) -> Double? {
    let parts = stats.seconds
    let seconds = parts.draft + parts.translate + parts.target + parts.verify + parts.learn
    return seconds > 0 ? hundredths(Double(stats.emitted) / seconds) : nil
}

private func hundredths(_ value: Double) -> Double { (value * 100).rounded() / 100 }

/// The hardware's name, such as `iPhone17,1`.
private func machine() -> String {
    var system = utsname()
    uname(&system)
    return withUnsafeBytes(of: &system.machine) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
}
