// The file of an adapter, format version 1: safetensors with metadata. See spec/11-adapter.md.

private let format = "omnidraft.adapter"
private let version = "1"
private let maxHeaderBytes = 1 << 22
private let maxFileBytes = 1 << 30
private let lengthBytes = 8
private let remedies = [
    "unreadable": "check the path and its permissions",
    "not_an_adapter": "give a file that `omnidraft adapter convert` or training wrote",
    "version": "update omnidraft",
]

/// The bytes of an adapter's file.
///
/// - Throws: ``OmniDraftError/adapter(_:)``: a text of the adapter cannot be written.
func encodeAdapter(_ adapter: Adapter) throws -> [UInt8] {
    let named = adapter.named.sorted
    let metadata = metadataOf(adapter).sorted.map { ($0.name, JsonValue.string($0.value)) }
    var header: JsonObject = ["__metadata__": .object(JsonObject(metadata))]
    var end = 0
    for (name, tensor) in named {
        let start = end
        end += 4 * tensor.values.count
        header[name] = [
            "data_offsets": .array([.int(start), .int(end)]), "dtype": .string("F32"),
            "shape": .array(tensor.shape.map { .int($0) }),
        ]
    }
    let text = try dumpJson(.object(header))
    let filled = (text.count + 7) / 8 * 8
    let out = ByteWriter().u64(UInt64(filled)).put(text).put(
        repeatElement(UInt8(ascii: " "), count: filled - text.count))
    for (_, tensor) in named { out.put(littleEndian(tensor.values)) }
    return out.bytes
}

func metadataOf(_ adapter: Adapter) -> ByName<String> {
    let products = Set(adapter.tensors.names.map { String($0.split(separator: ".").last ?? "") })
    return ByName([
        ("format", format), ("version", version), ("base", adapter.base),
        ("draft_tokenizer", adapter.draftTokenizer), ("target_tokenizer", adapter.targetTokenizer),
        ("rank", String(adapter.rank)), ("alpha", "folded"),
        ("targets", products.sorted(by: precedes).joined(separator: ",")), ("created", adapter.created),
    ])
}

/// The adapter in the bytes of a file.
///
/// - Throws: ``OmniDraftError/adapter(_:)`` with the name of the fault.
func decodeAdapter(_ data: Bytes) throws -> Adapter {
    let metadata: ByName<String>
    let tensors: [(name: String, tensor: Tensor)]
    do {
        let header = try readTensorHeader(data, most: maxHeaderBytes)
        metadata = ByName(header.metadata.map { ($0.name, $0.value) })
        try checkFormat(metadata)
        tensors = try readTensors(data, entries: header.entries, start: header.start)
    } catch let error as ValueError {
        throw adapterError(error.fault == "header" ? "not_an_adapter" : error.fault, error.message)
    }
    return try adapter(metadata, pairs(tensors.map { (name: $0.name, value: try floats($0.name, $0.tensor)) }))
}

private func checkFormat(_ metadata: ByName<String>) throws {
    guard let own = metadata["format"], isSame(own, format) else {
        throw adapterError("not_an_adapter", "its metadata does not say that it is an \(format)")
    }
    let found = metadata["version"] ?? "nothing"
    if !isSame(found, version) {
        let message = "it has version \(found.prefix(20)) and this omnidraft reads version \(version)"
        throw adapterError("version", message)
    }
}

private func floats(_ name: String, _ tensor: Tensor) throws -> FloatTensor {
    if tensor.dtype != "F32" {
        throw adapterError("dtype", "\(quoted(.string(name))) is \(tensor.dtype), not F32")
    }
    let values = (0..<tensor.data.count / 4).map { tensor.data.f32(4 * $0) }
    // A large size may stand beside a size 0; no site has either. The product of both is not computed.
    return FloatTensor(shape: tensor.shape.contains(0) ? tensor.shape.map { min($0, 1) } : tensor.shape, values: values)
}

private func pairs(_ arrays: [(name: String, value: FloatTensor)]) throws -> ByName<SitePair> {
    let all = ByName(arrays.map { ($0.name, $0.value) })
    var pairs = ByName<SitePair>()
    var used = 0
    for site in Set(arrays.map { Array(siteName($0.name)) }).sorted(by: { $0.lexicographicallyPrecedes($1) }) {
        let site = String(decoding: site, as: UTF8.self)
        guard let a = all[aName(site)] else {
            throw adapterError("missing_tensor", "it has no \(quoted(.string(aName(site))))")
        }
        guard let b = all[bName(site)] else {
            throw adapterError("missing_tensor", "it has no \(quoted(.string(bName(site))))")
        }
        pairs[site] = SitePair(a: a, b: b)
        used += 2
    }
    if used < all.count {
        let names = Set(pairs.names.flatMap { [Array(aName($0).utf8), Array(bName($0).utf8)] })
        let extra = all.sorted.first { !names.contains(Array($0.name.utf8)) }?.name ?? ""
        throw adapterError("extra_tensor", "it has a tensor \(quoted(.string(extra))), which no adapter has")
    }
    return pairs
}

/// What comes before the last dot of a name.
private func siteName(_ name: String) -> Substring.UTF8View {
    guard let dot = name.utf8.lastIndex(of: UInt8(ascii: ".")) else { return Substring().utf8 }
    return name[..<dot].utf8
}

private func adapter(_ metadata: ByName<String>, _ tensors: ByName<SitePair>) throws -> Adapter {
    var texts: [String] = []
    for name in ["base", "draft_tokenizer", "target_tokenizer", "created"] {
        guard let value = metadata[name], name == "created" ? isTime(value) : isHexadecimal(value.utf8, digits: 64)
        else {
            throw wrong(name, metadata[name])
        }
        texts.append(value)
    }
    let adapter = try Adapter(
        base: texts[0], draftTokenizer: texts[1], targetTokenizer: texts[2], tensors: tensors, created: texts[3])
    for (name, due) in metadataOf(adapter).members {
        guard let own = metadata[name], isSame(own, due) else { throw wrong(name, metadata[name], due) }
    }
    return adapter
}

private func wrong(_ name: String, _ own: String?, _ due: String? = nil) -> OmniDraftError {
    let quote: (String?) -> String = { $0.map { quoted(.string($0)) } ?? "absent" }
    let rest = due.map { " and its tensors give \(quote($0))" } ?? ""
    return adapterError("metadata", "its \(name) is \(quote(own))\(rest)")
}

/// Whether a text is written as `2026-01-02T03:04:05Z`.
func isTime(_ text: String) -> Bool {
    let form = "dddd-dd-ddTdd:dd:ddZ".utf8
    return text.utf8.count == form.count
        && zip(form, text.utf8).allSatisfy { $0 == UInt8(ascii: "d") ? (0x30...0x39).contains($1) : $0 == $1 }
}

/// The adapter in a file.
///
/// - Throws: ``OmniDraftError/adapter(_:)`` with the name of the fault, the path and the remedy.
func readAdapter(_ path: String) throws -> Adapter {
    do {
        return try decodeAdapter(bytes(of: path))
    } catch OmniDraftError.adapter(let refusal) {
        let remedy = remedies[refusal.fault] ?? "restore a copy, or convert or train it again"
        throw adapterError(refusal.fault, "\(path) is refused: \(refusal.message)", remedy)
    }
}

/// The bytes of a file; a file that does not begin like safetensors is not read to its end.
private func bytes(of path: String) throws -> Bytes {
    do {
        let head = try OpenFile(path).read(lengthBytes + 1)
        if head.count > lengthBytes && head[lengthBytes] != UInt8(ascii: "{") {
            throw adapterError("not_an_adapter", "it is not a safetensors file")
        }
        return Bytes(head.count > lengthBytes ? try readFile(path, most: maxFileBytes) : head)
    } catch let error as FileError {
        throw adapterError("unreadable", "it cannot be read (\(error.message))")
    }
}

/// Saves an adapter. Killed at any point, the old file or the new one is there, whole.
///
/// - Throws: ``OmniDraftError/adapter(_:)`` `unwritable`.
func writeAdapter(_ path: String, _ adapter: Adapter) throws {
    _ = try onFileError(of: try writeAtomically(path, encodeAdapter(adapter))) {
        adapterError("unwritable", "the adapter cannot be written to \(path) (\($0))", "choose another place")
    }
}
