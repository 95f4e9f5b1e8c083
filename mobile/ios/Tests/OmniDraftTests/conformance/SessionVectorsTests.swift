import XCTest

@testable import OmniDraft

/// Runs the folders `draft_prompt`, `adapter` and `session`.
final class SessionVectorsTests: VectorTestCase {
    func testDraftPrompt() throws {
        try run("draft_prompt") { vector in
            let given = vector.input
            let (target, drafter) = (try tokenizer(given["target"]!.string), try tokenizer(given["drafter"]!.string))
            let before = given["before"]?.optional?.object
            let earlier = before.map {
                // A mode for comparisons drafts as trie does, and only that counts here.
                EarlierText(
                    mode: GenerationConfig.Mode(rawValue: $0["mode"]!.string) ?? .trie, tokens: $0["tokens"]!.int32s,
                    context: $0["context"]!.int32s)
            }
            let mode = GenerationConfig.Mode(rawValue: given["mode"]!.string)!
            let asks = GenerationConfig(mode: mode).asksDrafter
            let context =
                asks ? draftContext(target, drafter: drafter, ids: given["prompt"]!.int32s, before: earlier) : []
            try same("context", context, vector.expected["context"]!.int32s)
        }
    }

    func testValidAdapters() throws {
        try run("adapter/valid") { vector in
            let file = vector.file(vector.input["file"]!.string)
            let adapter = try readAdapter(file)
            let metadata = Dictionary(uniqueKeysWithValues: metadataOf(adapter).members.map { ($0.name, $0.value) })
            let due = vector.expected["metadata"]!.object.members.map { ($0.name, $0.value.string) }
            try same("metadata", metadata, Dictionary(uniqueKeysWithValues: due))
            let shapes = Dictionary(uniqueKeysWithValues: adapter.named.members.map { ($0.name, $0.value.shape) })
            let dueShapes = vector.expected["shapes"]!.object.members.map { ($0.name, $0.value.ints) }
            try same("shapes", shapes, Dictionary(uniqueKeysWithValues: dueShapes))
            try compare(adapter.named, vector.expected["tensors"]!.object)
            try same("digest", adapter.digest, vector.expected["digest"]!.string)
            let isSame = try encodeAdapter(adapter) == readFile(file, most: .max)
            try same("canonical", isSame, vector.expected["canonical"]!.bool)
        }
    }

    func testInvalidAdapters() throws {
        try run("adapter/invalid") { vector in
            let fault = try faultOf { _ = try readAdapter(vector.file(vector.input["file"]!.string)) }
            try same("fault", fault, vector.expected["fault"]!.string)
        }
    }

    func testFittingAdapters() throws {
        try run("adapter/fit") { vector in
            let given = vector.input
            let adapter = try readAdapter(vector.file(given["file"]!.string))
            let place = AdapterPlace(
                name: "vectors", drafter: adapterEntry("drafter", given), target: adapterEntry("target", given),
                draftFingerprint: given["draft_tokenizer"]!.string,
                targetFingerprint: given["target_tokenizer"]!.string)
            let role = given["role"]?.optional.map { Role(rawValue: $0.string)! }
            if let due = vector.expected["fault"] {
                try same("fault", try faultOf { _ = try fit(adapter, in: place, as: role) }, due.string)
                return
            }
            let (model, fitted) = try fit(adapter, in: place, as: role)
            try same("model", model.rawValue, vector.expected["model"]!.string)
            try compare(fitted.tensors, vector.expected["tensors"]!.object)
        }
    }

    func testValidSessions() throws {
        try run("session/valid") { vector in
            let file = vector.file(vector.input["file"]!.string)
            let data = try readFile(file, most: .max)
            let due = vector.expected["state"]!.object
            try same("state", try stateIn(data), .object(due))
            let (decoded, cache) = try decodeSession(data)
            try same("bytes", try encodeSession(decoded, cache), data)
            let session = try tableSession(vector.input)
            try session.load(file)
            let isOther = due["identity"]!.object["drafter_adapter"]!.optional != nil
            try same("notices", session.notices.map(\.kind), isOther ? [.otherAdapter] : [])
            let saved = try saved(session)
            try same("saved", saved, asSaved(due, saved.object))
            guard let rest = vector.expected["due"]?.optional else { return }
            let output = due["answer"]!.object["output"]!.int32s
            try same("due", try session.resume().finish().tokenIds, output + rest.int32s)
            if let context = vector.expected["context"] {
                let after = try self.saved(session).object["answer"]!.object["context"]!
                try same("the context that is saved at the end", after, context)
            }
        }
    }

    func testInvalidSessions() throws {
        try run("session/invalid") { vector in
            let session = try tableSession(vector.input)
            let (text, entries) = (session.text, session.cache.entries())
            let fault = try inDirectory { place in
                try faultOf { try session.load(file(of: vector, in: place)) }
            }
            try same("fault", fault, vector.expected["fault"]!.string)
            try same("the text after a refusal", session.text === text, true)
            try same("the cache after a refusal", session.cache.entries(), entries)
            try same("the notices after a refusal", session.notices, [])
        }
    }

    private func compare(_ tensors: ByName<FloatTensor>, _ due: JsonObject) throws {
        try same("names", Set(tensors.names), Set(due.names))
        for (name, tensor) in tensors.members {
            let rows = due[name]!.array
            let values = rows.flatMap { row -> [Float] in
                if case .array = row { return row.floats }
                return [Float(row.num)]
            }
            try same(name, tensor.values, values)
        }
    }

    /// The file of a vector: a given one, or one with a right header around a given state.
    private func file(of vector: Vector, in place: String) throws -> String {
        let given = vector.input
        if let name = given["file"] { return vector.file(name.string) }
        let state = given["state_bytes"]?.hex ?? Array(given["state"]!.string.utf8)
        let path = joined(place, "session")
        try put(path, sessionFile(state, readFile(vector.file("cache.bin"), most: .max)))
        return path
    }

    private func saved(_ session: SessionCore) throws -> JsonValue {
        try inDirectory { place in
            let copy = joined(place, "copy")
            try session.save(copy)
            return try stateIn(readFile(copy, most: .max))
        }
    }

    /// The state that this session saves: it has no adapter, and it has a drafter.
    private func asSaved(_ state: JsonObject, _ saved: JsonObject) -> JsonValue {
        var state = state
        state["omnidraft"] = .string(libraryVersion)
        var identity = state["identity"]!.object
        identity["drafter_adapter"] = .null
        state["identity"] = .object(identity)
        if var answer = state["answer"]!.optional?.object, answer["context"]!.isNull {
            answer["context"] = saved["answer"]!.object["context"]
            state["answer"] = .object(answer)
        }
        return .object(state)
    }

    private func stateIn(_ data: [UInt8]) throws -> JsonValue {
        let end = sessionHeaderBytes + Bytes(data).u32(16)
        return try parseJson(Array(data[sessionHeaderBytes..<end]))
    }
}
