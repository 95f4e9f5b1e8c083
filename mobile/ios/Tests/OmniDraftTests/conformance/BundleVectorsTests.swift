import Foundation
import XCTest

@testable import OmniDraft

/// The vectors of `signing` whose signature a system without Ed25519 would have to check.
private let unverifiable: Set = [
    "manifest", "manifest_changed", "manifest_empty", "manifest_longer", "other_key_hidden", "rfc_8032_1",
    "rfc_8032_2", "rfc_8032_3", "right", "signature_changed", "signature_zero", "rfc_8032_4", "long", "point_nonce",
    "point_r_not_canonical", "point_r_minus_zero", "point_r_no_point", "point_r_beside", "point_key_no_point",
    "point_key_beside", "point_key_above_p",
]

/// Runs `bundle`, `bundle/graph`, `signing`, `costs` and `archive/...`.
final class BundleVectorsTests: VectorTestCase {
    func testBundle() throws {
        let listed = try jsonOf("bundle/files.json").strings
        try run("bundle") { vector in
            var files = ByName<[UInt8]?>(listed.map { ($0, Array($0.utf8)) })
            let manifest = try manifestOf(vector.input)
            files[manifestName] = .some(manifest)
            for (name, data) in vector.input["files"]!.object.members { files[name] = .some(data.optional?.hex) }
            try inDirectory { place in
                for (name, data) in files.members { if let data { try put(joined(place, name), data) } }
                if let fault = vector.expected["fault"] {
                    try same("the fault", try faultOf { _ = try openBundle(place) }, fault.string)
                } else {
                    let read = vector.expected["read"]!
                    try same("the seal", sealOf(manifest), read.object["seal"]!.string)
                    try same("what was read", normal(try readOf(place)), normal(read))
                }
            }
        }
    }

    func testGraph() throws {
        try run("bundle/graph") { vector in
            let data = Bytes(vector.input["graph"]!.hex)
            do {
                let files = try externalFiles(data)
                try same("the fault", nil, vector.expected["fault"]?.optional?.string)
                try same("the files", files, vector.expected["files"]!.strings)
            } catch let error as ValueError {
                try same(
                    "the fault", error.fault.isEmpty ? "outside" : error.fault,
                    vector.expected["fault"]?.optional?.string)
            }
        }
    }

    func testSigning() throws {
        try run("signing") { vector in
            let due = vector.input["seed"] == nil ? vector.expected["fault"]?.optional?.string : nil
            try same("the fault", try withEd25519 { try signatureFault(vector) }, due)
        }
    }

    /// A system without Ed25519 refuses what it would have to check, and finds all other faults.
    func testWhatASystemWithoutEd25519Refuses() throws {
        if canCheckSignatures { throw XCTSkip("this system has Ed25519") }
        let refused = try vectorsOf("signing").filter { try signatureFault($0) == "unverifiable" }.map(\.name)
        XCTAssertEqual(Set(refused), unverifiable)
        XCTAssertEqual(refused.count, unverifiable.count)
    }

    private func signatureFault(_ vector: Vector) throws -> String? {
        let manifest = vector.input["manifest"]!.hex
        let key = vector.input["public_key"]!.hex
        let isSigner = vector.input["seed"] != nil
        if isSigner { try checkSignedFile(vector, key) }
        let file = isSigner ? vector.expected["file"] : vector.input["file"]
        return try faultOf {
            try verifySignature(manifest, file?.optional.map { try decodeSignature($0.hex) }, publicKey: key)
        }
    }

    /// The file that a signer writes has one form; a phone signs nothing.
    private func checkSignedFile(_ vector: Vector, _ key: [UInt8]) throws {
        let file = vector.expected["file"]!.hex
        let signature = try decodeSignature(file)
        try same("the key", keyId(key), vector.expected["key"]!.string)
        try same("the file's key", signature.keyId, keyId(key))
        try same("the file", encodeSignature(signature), file)
    }

    func testCosts() throws {
        try run("costs") { vector in
            let (given, expected) = (vector.input, vector.expected)
            if let text = given["cpuinfo"] {
                try same("the processor", cpuOf(text.string), expected["cpu"]!.string)
                return
            }
            let machine = try readMachine(given["machine"]!.object)
            if let measure = given["measure"] {
                let source = sourceOfCosts(
                    Measure(rawValue: measure.string)!,
                    measuredOn: try given["measured_on"]!.optional.map { try readMachine($0.object) }, here: machine,
                    kept: given["kept"]!.bool)
                let names: [CostsSource: String] = [.manifest: "manifest", .kept: "kept", .measured: "measure"]
                try same("the source", names[source], expected["source"]!.string)
            } else if let record = given["record"] {
                let read = parseCosts(Array(record.string.utf8), seal: given["seal"]!.string, machine)
                try same("the costs", normal(fields(read)), normal(expected["costs"]!))
            } else {
                try checkRecord(vector, machine)
            }
        }
    }

    private func checkRecord(_ vector: Vector, _ machine: Machine) throws {
        let costs = vector.input["costs"]!.object
        let seal = vector.input["seal"]!.string
        let given = Costs(target: costs["target"]!.nums, draft: costs["draft"]!.num, host: costs["host"]!.num)
        let record = try costsRecord(seal: seal, machine, given)
        try same("the record", record, Array(vector.expected["record"]!.string.utf8))
        try same("the key", costsKey(seal: seal, machine), vector.expected["key"]!.string)
        let again = parseCosts(record, seal: seal, machine)
        try same("the costs", normal(fields(again)), normal(.object(costs)))
    }

    func testValidArchives() throws {
        try run("archive/valid") { vector in
            try withArchive(vector) { file in
                let archive = try openArchive(file)
                try checkHashes(archive)
                for name in archive.files {  // the content of each is its name
                    try same(name, try archive.mapped(name).array(), Array(name.utf8))
                }
                let entries = archive.entries.values.map {
                    JsonValue.array([.string($0.name), .int($0.begin), .int($0.size)])
                }
                let read: JsonObject = [
                    "entries": .array(entries), "device": .string(archive.index.device),
                    "drafter": .string(archive.index.drafter.rawValue),
                    "left_out": object(archive.index.leftOut) { .array($0.map(JsonValue.string)) },
                    "address": .string(archive.address),
                ]
                try same("the archive", normal(.object(read)), normal(vector.expect))
            }
        }
    }

    func testInvalidArchives() throws {
        try run("archive/invalid") { vector in
            try withArchive(vector) { file in
                let fault = try faultOf { try checkHashes(openArchive(file)) }
                try same("the fault", fault, vector.expected["fault"]!.string)
            }
        }
    }

    func testIndex() throws {
        try run("archive/index") { vector in
            let names = vector.input["files"]!.strings
            let data = Array(vector.input["text"]!.string.utf8)
            do {
                let index = try readIndex(data, manifest: vector.input["manifest"]!.string, files: names)
                try same("the fault", nil, vector.expected["fault"]?.optional?.string)
                try same("what it holds", names.filter(index.holds), vector.expected["holds"]!.strings)
            } catch let error as ValueError {
                try same(
                    "the fault", error.fault.isEmpty ? "index" : error.fault, vector.expected["fault"]?.optional?.string
                )
            }
        }
    }

    func testAddress() throws {
        try run("archive/address") { vector in
            let address = drafterAddress(records(vector.input["files"]!))
            try same("the address", address, vector.expected["address"]!.string)
        }
    }

    func testOpen() throws {
        try run("archive/open") { vector in
            try inDirectory { folder in
                let manifest = Array(vector.input["text"]!.string.utf8)
                let address = drafterAddress(records(try parseJson(manifest).object["files"]!))
                let (bundle, shared) = (joined(folder, "bundle"), joined(folder, "drafters/\(address)"))
                for name in vector.input["own"]!.strings { try put(joined(bundle, name), Array(name.utf8)) }
                for name in vector.input["shared"]!.strings {
                    try put(joined(shared, without(drafterPrefix, of: name)), Array(name.utf8))
                }
                try put(joined(bundle, manifestName), manifest)
                if let index = vector.input["index"]!.optional {
                    try put(joined(bundle, indexName), Array(index.string.utf8))
                }
                if let fault = vector.expected["fault"] {
                    try same("the fault", try faultOf { _ = try openBundle(bundle) }, fault.string)
                } else {
                    try checkPlaces(vector, bundle, shared)
                }
            }
        }
    }

    private func checkPlaces(_ vector: Vector, _ path: String, _ shared: String) throws {
        let bundle = try openBundle(path)
        for (name, part) in vector.expected["place"]!.object.members {
            if part.string == "left_out" {
                try same(name, try faultOf { _ = try bundle.file(name) }, "left_out")
                continue
            }
            let file = try bundle.file(name)
            try same(name, try fileSha256(file), bundle.files[name]?.sha256)
            try same(name, begins(file, with: (part.string == "bundle" ? path : shared) + "/"), true)
        }
    }
}

private func withArchive(_ vector: Vector, _ body: (String) throws -> Void) throws {
    try inDirectory { place in
        let file = joined(place, "archive.zip")
        try put(file, archiveOf(vector.input))
        try body(file)
    }
}

/// The manifest of a vector: its text, or another text with a change and a right seal.
private func manifestOf(_ given: JsonObject) throws -> [UInt8] {
    guard let base = given["base"] else {
        let text = given["bytes"]?.hex ?? Array(given["text"]!.string.utf8)
        return text + [UInt8](repeating: 0x20, count: given["spaces"]?.int ?? 0)
    }
    let body = try readFile("\(vectorRoot)/bundle/\(base.string)", most: 1 << 20)
    let cut = given["cut"]!.ints
    return sealedManifest(Array(body[1..<cut[0]]) + Array(given["insert"]!.string.utf8) + Array(body[cut[1]...]))
}

/// A value with all numbers as floats, because JSON does not tell 0 from 0.0, and names in order.
private func normal(_ value: JsonValue) -> JsonValue {
    switch value {
    case .integer(let number): return .double(Double(number))
    case .large(let digits): return .double(Double(digits)!)
    case .array(let items): return .array(items.map(normal))
    case .object(let object):
        return .object(JsonObject(object.members.map { ($0.name, normal($0.value)) }.sorted { precedes($0.0, $1.0) }))
    default: return value
    }
}

private func object<T>(_ values: ByName<T>, _ json: (T) -> JsonValue) -> JsonValue {
    .object(JsonObject(values.members.map { ($0.name, json($0.value)) }))
}

private func records(_ files: JsonValue) -> ByName<FileRecord> {
    ByName(
        files.object.members.map {
            ($0.name, FileRecord(sha256: $0.value.object["sha256"]!.string, bytes: $0.value.object["bytes"]!.int))
        })
}

private func readOf(_ path: String) throws -> JsonValue {
    let bundle = try openBundle(path)
    guard case .object(var costs) = fields(bundle.costs) else { throw VectorFailure(description: "no costs") }
    costs["acceptance"] = .double(bundle.costs.acceptance)
    return [
        "seal": .string(bundle.seal), "target": model(bundle.target), "drafter": model(bundle.drafter),
        "prompt": prompt(bundle.prompt), "costs": .object(costs),
        "measured_on": bundle.measuredOn.map { .object($0.asJson) } ?? .null, "vocab_map": .string(bundle.vocabMap),
    ]
}

private func model(_ entry: ModelEntry) -> JsonValue {
    let kv: JsonObject = [
        "num_layers": .int(entry.kv.numLayers), "num_kv_heads": .int(entry.kv.numKvHeads),
        "head_dim": .int(entry.kv.headDim), "max_length": .int(entry.kv.maxLength),
        "type": .string(entry.kv.type.rawValue),
    ]
    return [
        "graph": .string(entry.graph), "tokenizer": .string(entry.tokenizer),
        "tokenizer_fingerprint": .string(entry.tokenizerFingerprint), "vocab_size": .int(entry.vocabSize),
        "bos_id": entry.bosId.map { .int(Int($0)) } ?? .null, "parameters": .int(entry.parameters),
        "layout": .string(entry.layout.rawValue), "fingerprint": orNull(entry.fingerprint), "kv": .object(kv),
        "eos_ids": .array(entry.eosIds.map { .int(Int($0)) }), "lora": entry.lora.map(lora) ?? .null,
        "train": entry.train.map { .int($0.rank) } ?? .null,
        "places": .array(entry.places.names.map(JsonValue.string)),
    ]
}

private func lora(_ sites: LoraSites) -> JsonValue {
    let all = object(sites.sites) { site in
        let parts = site.parts.map { JsonValue.array([.string($0.name), .int($0.width)]) }
        return ["inputs": .int(site.inputs), "parts": .array(parts)]
    }
    return ["rank": sites.rank.map(JsonValue.int) ?? .null, "sites": all]
}

private func prompt(_ template: PromptTemplate) -> JsonValue {
    let system = template.system.map { ["before": .string($0.before), "after": .string($0.after)] as JsonObject }
    let think = template.think.map {
        ["open": .string($0.open), "close": .string($0.close), "earlier": .string($0.earlier.rawValue)] as JsonObject
    }
    return [
        "prefix": .string(template.prefix), "suffix": .string(template.suffix), "between": orNull(template.between),
        "after": orNull(template.after), "begin": .string(template.begin), "lead": .string(template.lead),
        "system": system.map(JsonValue.object) ?? .null, "think": think.map(JsonValue.object) ?? .null,
        "trim": .array(template.trim.map { .string($0.rawValue) }),
    ]
}

private func orNull(_ text: String?) -> JsonValue { text.map(JsonValue.string) ?? .null }

private func fields(_ costs: Costs?) -> JsonValue {
    guard let costs else { return .null }
    return [
        "target": .array(costs.target.map(JsonValue.double)), "draft": .double(costs.draft),
        "host": .double(costs.host),
    ]
}
