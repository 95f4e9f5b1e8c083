import Foundation

private let heats = ["", "warm: no learning", "hot: slower", "too hot: waiting"]

extension ScreenModel {
    /// One line: tokens a second with and without drafts, the ratio, and the heat.
    var status: String {
        let fast = tokensPerSecond[.speculative]
        let plain = tokensPerSecond[.plain]
        var parts = [title]
        if let fast { parts.append("with drafts \(rounded(fast)) tokens/s") }
        if let plain { parts.append("without \(rounded(plain)) tokens/s") }
        if let fast, let plain, plain > 0 { parts.append("\(rounded(fast / plain)) times") }
        parts.append(heats[min(max(heat, 0), heats.count - 1)])
        return parts.filter { !$0.isEmpty }.joined(separator: " - ")
    }
}

private func rounded(_ value: Double) -> String { String(format: "%.1f", value) }
