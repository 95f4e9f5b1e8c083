// The static graphs of a model in a manifest, and the providers that may run them (spec/03-bundle.md, npu).

/// onnxruntime's name of the CPU.
let cpuProvider = "CPUExecutionProvider"
/// The place of the float graphs on the CPU, which each bundle with static graphs has.
let npuPlace = "npu"

private let reserved = ["cpu", npuPlace]

/// An execution provider by onnxruntime's name, with its options.
struct ProviderEntry: Sendable, Equatable {
    var name = cpuProvider
    var options = ByName<String>()
    /// Options for which the device chooses a directory.
    var directories: [String] = []
}

/// Static graphs of one number format.
struct Form: Sendable, Equatable {
    /// A graph and the number of tokens of its block.
    struct Graph: Sendable, Equatable {
        let block: Int
        let path: String
    }

    /// One of them is for single tokens.
    let graphs: [Graph]
    /// The file that the graphs share.
    let weights: String
    /// Added to the score of a hidden position.
    let mask: Double
    /// Of adapters, for each part of a site; nil if the graphs take none.
    let loraRank: Int?

    /// Paths of the graphs and the weights.
    var files: [String] { graphs.map(\.path) + [weights] }
}

/// A form of static graphs, and the provider that runs them.
struct Place: Sendable, Equatable {
    let form: Form
    /// The file of tables that the host reads.
    let host: String
    /// Positions of the past that the graphs take.
    let kvLength: Int
    let provider: ProviderEntry

    /// Paths of all files of this place.
    var files: [String] { form.files + [host] }
}

/// The places in the field `npu` of a manifest, and the place "npu": the float graphs on the CPU.
///
/// - Throws: ``ValueError``: a field is missing, of another kind, or out of its range.
func readPlaces(_ data: JsonObject) throws -> ByName<Place> {
    let host = try text(data.at("host"))
    let kvLength = try integer(data.at("kv_length"), 1)
    let forms = ByName(try mapping(data.at("forms")).members.map { ($0.name, try formOf($0.value, kvLength)) })
    var places = ByName<Place>()
    places[npuPlace] = Place(
        form: try formAt(forms, "float"), host: host, kvLength: kvLength, provider: ProviderEntry())
    for (name, value) in try mapping(data.at("providers")).members {
        if reserved.contains(where: { isSame($0, name) }) || !isPlaceName(name) {
            throw ValueError("a place cannot be named \(quoted(.string(name)))")
        }
        let entry = try mapping(value)
        places[name] = Place(
            form: try formAt(forms, text(entry.at("form"))), host: host, kvLength: kvLength,
            provider: try providerOf(entry))
    }
    return places
}

private func formAt(_ forms: ByName<Form>, _ name: String) throws -> Form {
    guard let form = forms[name] else { throw ValueError("there are no static graphs \(quoted(.string(name)))") }
    return form
}

private func isPlaceName(_ name: String) -> Bool {
    let bytes = Array(name.utf8)
    let isHyphen = bytes.first == UInt8(ascii: "-")
    return (1...32).contains(bytes.count) && !isHyphen
        && bytes.allSatisfy { ($0 >= 0x61 && $0 <= 0x7a) || ($0 >= 0x30 && $0 <= 0x39) || $0 == UInt8(ascii: "-") }
}

/// No value is a path.
private func isValue(_ value: String) -> Bool {
    (1...64).contains(value.utf8.count) && value.utf8.allSatisfy { isLetterOrDigit($0) || "_.+-".utf8.contains($0) }
}

/// Whether a byte is an ASCII letter or digit.
func isLetterOrDigit(_ byte: UInt8) -> Bool {
    (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39)
}

/// The provider of a place. No option of ``BundleLimits`` names a file: a provider would load it as code.
private func providerOf(_ entry: JsonObject) throws -> ProviderEntry {
    let name = try text(entry.at("provider"))
    guard let known = BundleLimits.providerOptions.first(where: { isSame($0.provider, name) }) else {
        let names = BundleLimits.providerOptions.map(\.provider).joined(separator: ", ")
        throw ValueError("provider \(quoted(.string(name))) is not one of \(names)")
    }
    let options = ByName(try mapping(entry.at("options")).members.map { ($0.name, try text($0.value)) })
    for (key, option) in options.members {
        if known.options.contains(where: { isSame($0, key) }) && isValue(option) { continue }
        let (key, option) = (quoted(.string(key)), quoted(.string(option)))
        throw ValueError("option \(key) of \(name) cannot be set to \(option) by a bundle")
    }
    let directories = try array(entry["directories"] ?? .array([])).map { try text($0) }
    for directory in directories where !BundleLimits.providerDirectories.contains(where: { isSame($0, directory) }) {
        throw ValueError("\(quoted(.string(directory))) is not a directory that a device chooses")
    }
    return ProviderEntry(name: known.provider, options: options, directories: directories)
}

private func formOf(_ value: JsonValue, _ kvLength: Int) throws -> Form {
    let data = try mapping(value)
    var graphs: [Form.Graph] = []
    for each in try array(data.at("graphs")) {
        let entry = try mapping(each)
        let graph = Form.Graph(block: try integer(entry.at("block"), 1, kvLength), path: try text(entry.at("graph")))
        graphs.removeAll { $0.block == graph.block }
        graphs.append(graph)
    }
    if !graphs.contains(where: { $0.block == 1 }) {
        throw ValueError("static graphs for blocks of \(graphs.map(\.block)) tokens and none for one")
    }
    let mask = try number(data.at("mask"))
    if mask < Double(BundleLimits.leastMask) || mask >= 0 { throw ValueError("mask \(mask) is not between -1e9 and 0") }
    let loraRank = try data["lora_rank"].map { try integer($0, 1, BundleLimits.maxRank) }
    return Form(graphs: graphs, weights: try text(data.at("weights")), mask: mask, loraRank: loraRank)
}
