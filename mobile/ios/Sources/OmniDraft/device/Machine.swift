import Foundation

// The machine that costs were measured on: what decides how long a pass takes, nothing that names a user.

private let maxCores = 1 << 16
private let maxCpu = 256  // bytes
private let maxText = 64  // bytes
private let cpuInfo = "/proc/cpuinfo"
private let cpuInfoBytes = 1 << 16  // the first cores are enough

/// A machine and how the models run on it. Costs are of one machine: all fields are equal.
struct Machine: Sendable, Equatable {
    /// The model of the processor.
    let cpu: String
    /// Cores of the processor that the process may use.
    let cores: Int
    /// Operating system and architecture.
    let system: String
    let onnxruntime: String
    let threads: Int
    /// The place of the target: `cpu`, a name of `npu.providers`.
    let targetOn: String
    let drafterOn: String

    var asJson: JsonObject {
        [
            "cpu": .string(cpu), "cores": .int(cores), "system": .string(system),
            "onnxruntime": .string(onnxruntime), "threads": .int(threads), "target_on": .string(targetOn),
            "drafter_on": .string(drafterOn),
        ]
    }

    /// The fields as texts, in order.
    var texts: [String] { [cpu, String(cores), system, onnxruntime, String(threads), targetOn, drafterOn] }

    /// Texts are compared by their bytes.
    static func == (a: Machine, b: Machine) -> Bool { a.asJson == b.asJson }
}

/// A machine from the fields of an object of JSON.
///
/// - Throws: ``ValueError``: a field is missing, of another kind, or out of its range.
func readMachine(_ data: JsonObject) throws -> Machine {
    Machine(
        cpu: try text(data.at("cpu"), most: maxCpu),
        cores: try integer(data.at("cores"), in: 1...maxCores),
        system: try text(data.at("system"), most: maxText),
        onnxruntime: try text(data.at("onnxruntime"), most: maxText),
        threads: try integer(data.at("threads"), in: 1...maxCores),
        targetOn: try text(data.at("target_on"), most: maxCpu),
        drafterOn: try text(data.at("drafter_on"), most: maxCpu))
}

/// This machine, which runs both models on the CPU.
func thisMachine(onnxruntime: String, threads: Int) -> Machine {
    let cpu = short(cpuName(), maxCpu)
    return Machine(
        cpu: cpu.isEmpty ? architecture : cpu,
        cores: min(max(coreCount(), 1), maxCores),
        system: short("\(systemName) \(architecture)", maxText),
        onnxruntime: short(onnxruntime, maxText),
        threads: threads,
        targetOn: "cpu",
        drafterOn: "cpu")
}

#if os(Linux)
    private let systemName = "Linux"
#elseif os(macOS)
    private let systemName = "macOS"
#elseif os(iOS)
    private let systemName = "iOS"
#else
    private let systemName = "Darwin"
#endif

#if arch(x86_64)
    private let architecture = "x86_64"
#elseif arch(arm64) && os(Linux)
    private let architecture = "aarch64"
#elseif arch(arm64)
    private let architecture = "arm64"
#else
    private let architecture = "unknown"
#endif

#if canImport(Darwin)
    private func coreCount() -> Int { Int(sysconf(_SC_NPROCESSORS_ONLN)) }

    /// The model of the processor, or of the device: a phone tells only that. Empty where the system tells neither.
    private func cpuName() -> String {
        for name in ["machdep.cpu.brand_string", "hw.machine"] {
            var size = 256
            var value = [UInt8](repeating: 0, count: size)
            if sysctlbyname(name, &value, &size, nil, 0) == 0, size > 1 {
                return String(decoding: value[..<(size - 1)], as: UTF8.self)
            }
        }
        return ""
    }
#else
    /// Processors that the process may use: the bits of the mask in /proc/self/status, else all that are there.
    private func coreCount() -> Int {
        let status = (try? OpenFile("/proc/self/status").read(1 << 16)) ?? []
        let lines = status.split(separator: UInt8(ascii: "\n"))
        let mask = lines.first { $0.starts(with: "Cpus_allowed:".utf8) }?.drop { $0 != UInt8(ascii: ":") } ?? []
        let count = mask.map(hexDigit).filter { $0 >= 0 }.reduce(0) { $0 + $1.nonzeroBitCount }
        return count > 0 ? count : sysconf(Int32(_SC_NPROCESSORS_ONLN))
    }

    /// The model of the processor; empty where the system does not tell it.
    private func cpuName() -> String {
        guard let data = try? OpenFile(cpuInfo).read(cpuInfoBytes) else { return "" }  // a container may hide the file
        return cpuOf(String(decoding: data, as: UTF8.self))
    }
#endif

/// The model of the processor in the text of /proc/cpuinfo: its name, or its kinds of cores by number.
func cpuOf(_ text: String) -> String {
    let fields = text.utf8.split(separator: UInt8(ascii: "\n")).map { line -> (name: String, value: String) in
        let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        return (trimmed(parts[0]), parts.count > 1 ? trimmed(parts[1]) : "")
    }
    if let named = fields.first(where: { $0.name == "model name" && !$0.value.isEmpty }) { return named.value }
    let makers = fields.filter { $0.name == "CPU implementer" }
    let parts = fields.filter { $0.name == "CPU part" }
    let kinds = Set(zip(makers, parts).map { "\($0.value) \($1.value)" })
    return kinds.sorted { precedes($0, $1) }.joined(separator: ", ")
}

private func trimmed(_ part: Substring.UTF8View) -> String {
    func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (byte >= 0x09 && byte <= 0x0d) }
    let start = part.drop(while: isSpace)
    let kept = start.reversed().drop(while: isSpace).reversed()
    return String(decoding: Array(kept), as: UTF8.self)
}

/// A text in one line of printable characters, of at most `most` bytes.
private func short(_ value: String, _ most: Int) -> String {
    let line = value.unicodeScalars.map { isPrintable($0) ? Character($0) : " " }
    let words = line.split(separator: " ").joined(separator: " ")
    var out = ""
    var bytes = 0
    for scalar in String(words).unicodeScalars {
        bytes += String(scalar).utf8.count
        if bytes > most { break }
        out.unicodeScalars.append(scalar)
    }
    return out
}

private func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator, .spaceSeparator:
        return false
    default: return true
    }
}
