// The file pack.json: which files of a bundle were left out for a device (spec/16-archive.md, "The index").

let indexName = "pack.json"
/// The devices that a bundle can be packed for.
let packDevices = ["desktop", "android-cpu", "android-qnn", "ios-cpu"]
let maxIndexBytes = 1 << 20

private let format = "omnidraft.pack"
private let formatVersion = 1
private let maxLeftOut = 1024

/// What an archive holds of the drafter; the raw value is the name in an index.
enum DrafterPart: String, Sendable {
    /// Its files.
    case with
    /// None of them.
    case without
    /// Nothing else.
    case only
}

/// What a packed bundle holds.
struct PackIndex: Sendable, Equatable {
    /// SHA-256 of the bytes of manifest.json.
    let manifest: String
    /// The device that the bundle was packed for, one of ``packDevices``.
    let device: String
    let drafter: DrafterPart
    /// Each listed file that the device does not need, with the devices that get it.
    let leftOut: ByName<[String]>

    /// Whether an archive with this index holds a file that the manifest lists.
    func holds(_ name: String) -> Bool {
        !leftOut.has(name) && (drafter == .with || begins(name, with: drafterPrefix) == (drafter == .only))
    }
}

/// The index of a packed bundle.
///
/// - Throws: ``ValueError``: it is not an index, is of another version, or belongs to another manifest.
func readIndex(_ data: [UInt8], manifest: String, files: [String]) throws -> PackIndex {
    if data.count > maxIndexBytes { throw ValueError("it has more than \(maxIndexBytes) bytes") }
    let index = try checkedIndex(mapping(parseJson(data)))
    if !isSame(index.manifest, manifest) { throw ValueError("it belongs to another manifest") }
    let listed = Set(files.map { Array($0.utf8) })
    for name in index.leftOut.names where !listed.contains(Array(name.utf8)) {
        throw ValueError("the manifest does not list \(quoted(.string(name)))")
    }
    return index
}

private func checkedIndex(_ fields: JsonObject) throws -> PackIndex {
    if fields["format"] != .string(format) { throw ValueError("it is not an \(format) index") }
    let version = try integer(fields["version"] ?? .null, from: 0)
    if version != formatVersion {
        throw ValueError("it has version \(version) and not \(formatVersion)", fault: "version")
    }
    let leftOut = try mapping(fields.at("left_out"), most: maxLeftOut).members.map { name, devices in
        (
            try text(.string(name), most: BundleLimits.maxPath),
            try array(devices, most: packDevices.count).map { try oneOf($0, packDevices) }
        )
    }
    let manifest = try hexadecimal(fields.at("manifest"), 64)
    let device = try oneOf(fields.at("device"), packDevices)
    let parts: [DrafterPart] = [.with, .without, .only]
    let part = try oneOf(fields.at("drafter"), parts.map(\.rawValue))
    guard let drafter = DrafterPart(rawValue: part) else { preconditionFailure("the part was checked") }
    return PackIndex(manifest: manifest, device: device, drafter: drafter, leftOut: ByName(leftOut))
}

private func oneOf(_ value: JsonValue, _ names: [String]) throws -> String {
    let name = try text(value)
    guard let known = names.first(where: { isSame($0, name) }) else {
        throw ValueError("\(quoted(value)) is not one of \(names.joined(separator: ", "))")
    }
    return known
}
