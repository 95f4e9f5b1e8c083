// The static graphs of a model in a manifest (spec/03-bundle.md, npu). This runtime runs none: it checks and hashes them.

private let floatPlace = "npu"  // the float graphs on the CPU, which each bundle with static graphs has
private let reserved = ["cpu", floatPlace]

/// Static graphs of one number format.
struct StaticGraphs: Sendable, Equatable {
    /// Paths of the graphs, of their weights, and of the tables that the host reads.
    let files: [String]
    /// Of adapters, for each part of a site; nil if the graphs take none.
    let loraRank: Int?
}

/// The static graphs in the field `npu` of a manifest, by their places.
///
/// - Throws: ``ValueError``: a field is missing, of another kind, or out of its range.
func readPlaces(_ data: JsonObject) throws -> ByName<StaticGraphs> {
    let host = try text(data.at("host"))
    let kvLength = try integer(data.at("kv_length"), from: 1)
    let forms = ByName(try mapping(data.at("forms")).members.map { ($0.name, try formOf($0.value, host, kvLength)) })
    func form(_ name: String) throws -> StaticGraphs {
        guard let form = forms[name] else { throw ValueError("there are no static graphs \(quoted(.string(name)))") }
        return form
    }
    var places: ByName<StaticGraphs> = [floatPlace: try form("float")]
    for (name, value) in try mapping(data.at("providers")).members {
        if reserved.contains(where: { isSame($0, name) }) || !isPlaceName(name) {
            throw ValueError("a place cannot be named \(quoted(.string(name)))")
        }
        let entry = try mapping(value)
        places[name] = try form(text(entry.at("form")))
        try checkProvider(entry)
    }
    return places
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

func isLetterOrDigit(_ byte: UInt8) -> Bool {
    (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39)
}

/// Checks the provider of a place. No option of ``BundleLimits`` names a file: a provider would load it as code.
private func checkProvider(_ entry: JsonObject) throws {
    let name = try text(entry.at("provider"))
    guard let known = BundleLimits.providerOptions.first(where: { isSame($0.provider, name) }) else {
        let names = BundleLimits.providerOptions.map(\.provider).joined(separator: ", ")
        throw ValueError("provider \(quoted(.string(name))) is not one of \(names)")
    }
    for (key, value) in try mapping(entry.at("options")).members {
        let option = try text(value)
        if known.options.contains(where: { isSame($0, key) }) && isValue(option) { continue }
        let (shownKey, shown) = (quoted(.string(key)), quoted(.string(option)))
        throw ValueError("option \(shownKey) of \(name) cannot be set to \(shown) by a bundle")
    }
    for directory in try array(entry["directories"] ?? .array([])).map({ try text($0) })
    where !BundleLimits.providerDirectories.contains(where: { isSame($0, directory) }) {
        throw ValueError("\(quoted(.string(directory))) is not a directory that a device chooses")
    }
}

private func formOf(_ value: JsonValue, _ host: String, _ kvLength: Int) throws -> StaticGraphs {
    let data = try mapping(value)
    var blocks: [Int] = []
    var files: [String] = []
    for each in try array(data.at("graphs")) {
        let entry = try mapping(each)
        blocks.append(try integer(entry.at("block"), in: 1...kvLength))
        files.append(try text(entry.at("graph")))
    }
    if !blocks.contains(1) { throw ValueError("static graphs for blocks of \(blocks) tokens and none for one") }
    let mask = try number(data.at("mask"))
    if mask < Double(BundleLimits.leastMask) || mask >= 0 { throw ValueError("mask \(mask) is not between -1e9 and 0") }
    let loraRank = try data["lora_rank"].map { try integer($0, in: 1...BundleLimits.maxRank) }
    return StaticGraphs(files: files + [try text(data.at("weights")), host], loraRank: loraRank)
}
