import Foundation

@testable import OmniDraft

// Memory of this process, where the system tells it in /proc; else 0, so that a comparison says nothing.

/// Bytes that are in memory now.
func residentBytes() -> Int { statusBytes("VmRSS:") }

func mostResidentBytes() -> Int { statusBytes("VmHWM:") }

private func statusBytes(_ name: String) -> Int {
    guard let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return 0 }
    let line = text.split(separator: "\n").first { $0.hasPrefix(name) } ?? ""
    return 1024 * (Int(line.filter(\.isNumber)) ?? 0)
}
