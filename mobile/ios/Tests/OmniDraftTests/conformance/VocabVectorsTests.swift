import Foundation
import XCTest

@testable import OmniDraft

/// Runs `tokenizer`, `tokenize`, `cache/...` and `map/...`: tokenizers, n-gram caches and vocabulary maps as files.
final class VocabVectorsTests: VectorTestCase {
    func testTokenizer() throws {
        try run("tokenizer") { vector in
            let given = vector.input
            let tokenizer = try self.tokenizer(file: vector.file(given["file"]!.string))
            if given["prefix"] != nil {
                let parts = ["prefix", "text", "suffix"].map { given[$0]!.string }
                let ids = tokenizer.encodePrompt(parts, goesOn: given["goes_on"]!.bool)
                try same("ids", ids, vector.expected["ids"]!.int32s)
            } else if let text = given["text"] {
                try same("ids", tokenizer.encode(text.string), vector.expected["ids"]!.int32s)
            } else if let data = given["spell"] {
                try same("ids", tokenizer.spell(data.hex), vector.expected["ids"]!.optional?.int32s)
            } else {
                try checkBytes(vector, tokenizer)
                let tokens = (0..<tokenizer.count).map { tokenizer.bytes(of: Int32($0)) }
                let computed = vocabularyFingerprint(tokens, tokenizer.controls.map { ($0.id, $0.content) })
                try same("the fingerprint", computed, vector.expected["fingerprint"]!.string)
                try same("the file's fingerprint", tokenizer.fingerprint, computed)
            }
        }
    }

    private func checkBytes(_ vector: Vector, _ tokenizer: Tokenizer) throws {
        let bytes = (0..<tokenizer.count).map { tokenizer.bytes(of: Int32($0)).map { hexOf($0) } }
        try same("bytes", bytes, vector.expected["bytes"]!.array.map { $0.optional?.string })
    }

    func testInvalidTokenizer() throws {
        try run("tokenizer/invalid") { vector in
            let fault = try faultOf { _ = try openTokenizerFile(vector.file(vector.input["file"]!.string)) }
            try same("the fault", fault, vector.expected["fault"]!.string)
        }
    }

    func testTokenize() throws {
        try run("tokenize") { vector in
            let (given, expected) = (vector.input, vector.expected)
            let file = given["tokenizer"]!.string.dropLast(".json".count) + ".bin"
            let tokenizer = try self.tokenizer(file: vector.file(String(file)))
            if let data = given["spell"] {
                try same("ids", tokenizer.spell(data.hex), expected["ids"]!.int32s)
                try same("bytes", tokenizer.textOf(expected["ids"]!.int32s), data.hex)
            } else if given["prefix"] != nil {
                let ids = tokenizer.encodePrompt(["prefix", "text", "suffix"].map { given[$0]!.string })
                try same("ids", ids, expected["ids"]!.int32s)
                try same("bytes", hexOf(tokenizer.textOf(ids)), expected["bytes"]!.string)
            } else {
                try checkBytes(vector, tokenizer)
            }
        }
    }

    private func opened(_ vector: Vector, _ name: String, _ map: VocabMap) throws -> NgramCache {
        let file = vector.file(vector.input[name]!.string)
        let opened = try openCache(file, map, capacity: vector.input["capacity"]!.int)
        try same("the problem", opened.problem, nil)
        return opened.cache
    }

    func testLearn() throws {
        try run("cache/learn") { vector in
            let given = vector.input
            let map = try vectorMap(given["map"]!.string)
            let cache =
                given["start"]!.isNull
                ? try NgramCache(map, capacity: given["capacity"]!.int)
                : try opened(vector, "start", map)
            let new = given["rounds"]!.array.map {
                cache.learn($0.object["emitted"]!.int32s, $0.object["accepted"]!.int)
            }
            try same("new", new, vector.expected["new"]!.ints)
            try same("entries", cache.entries(), entries(vector.expected["entries"]!))
        }
    }

    private func entries(_ expected: JsonValue) -> [CacheEntry] {
        expected.array.map(\.object).map {
            CacheEntry(
                targetId: Int32($0["target_id"]!.int), hits: $0["hits"]!.int, accepted: $0["accepted"]!.int,
                tick: $0["tick"]!.int)
        }
    }

    func testLoad() throws {
        try run("cache/load") { vector in
            let cache = try opened(vector, "file", vectorMap(vector.input["map"]!.string))
            if vector.input["prefilled"]?.bool == true { _ = cache.prefill() }
            for round in vector.input["rounds"]?.array.map(\.object) ?? [] {
                _ = cache.learn(round["emitted"]!.int32s, round["accepted"]!.int)
            }
            try same("targets", cache.entries().map(\.targetId), vector.expected["targets"]!.int32s)
            if let expected = vector.expected["entries"] {
                try same("entries", cache.entries(), entries(expected))
            }
        }
    }

    private func map(_ vector: Vector) throws -> VocabMap? {
        try vector.input["map"]?.optional.map { try vectorMap($0.string) }
    }

    func testValidCache() throws {
        try run("cache/valid") { vector in
            let file = vector.file(vector.input["file"]!.string)
            let bytes = try readFile(file, most: maxCacheBytes)
            let map = try map(vector)
            let table = try readCacheTable(file, map)
            let expected = vector.expected["table"]!.object
            try same("drafter", table.draftFingerprint, expected["draft_fingerprint"]!.string)
            try same("target", table.targetFingerprint, expected["target_fingerprint"]!.string)
            try same("tick", table.tick, expected["tick"]!.int)
            try same("entries", table.count, expected["entries"]!.array.count)
            for (index, entry) in expected["entries"]!.array.map(\.object).enumerated() {
                try same("target_id", Int(table.targets[index]), entry["target_id"]!.int)
                try same("spelling", table.spellings.row(index), entry["spelling"]!.int32s)
                let counts = [table.hits, table.accepted, table.ticks].map { $0.unsigned(index) }
                try same("counts", counts, ["hits", "accepted", "tick"].map { entry[$0]!.int })
            }
            try same("the bytes written again", encodeCache(table), bytes)
            if let map {
                let opened = try openCache(file, map)
                try same("the problem", opened.problem, nil)
                try same("the bytes of the loaded cache", encodeCache(opened.cache.table()), bytes)
            }
        }
    }

    func testInvalidCache() throws {
        try run("cache/invalid") { vector in
            let file = vector.file(vector.input["file"]!.string)
            let map = try map(vector)
            try same("the fault", faultOf { _ = try readCacheTable(file, map) }, vector.expected["fault"]!.string)
            // A session continues with an empty cache and says so.
            let opened = try openCache(file, map ?? vectorMap("toy"))
            try same("entries", opened.cache.count, 0)
            try same("the notice", opened.problem?.hasPrefix("starting with an empty cache"), true)
        }
    }

    func testMerge() throws {
        try run("cache/merge") { vector in
            let tables = try ["a", "b"].map { try readCacheTable(vector.file(vector.input[$0]!.string)) }
            let expected = try readFile(vector.file(vector.expected["file"]!.string), most: maxCacheBytes)
            try same("the merged file", encodeCache(merge(tables[0], tables[1])), expected)
            try same("the file merged the other way", encodeCache(merge(tables[1], tables[0])), expected)
        }
    }

    func testFingerprints() throws {
        try run("map/fingerprint") { vector in
            let tokens = vector.input["tokens"]!.array.map { $0.optional?.hex }
            let controls = vector.input["controls"]!.array.map { (Int32($0.array[0].int), $0.array[1].string) }
            let computed = vocabularyFingerprint(tokens, controls.map { (id: $0.0, content: $0.1) })
            try same("the fingerprint", computed, vector.expected["fingerprint"]!.string)
        }
    }

    func testValidMap() throws {
        try run("map/valid") { vector in
            let expected = try vectorMap(vector.expected["map"]!.string)
            let read = try loadVocabMap(vector.file(vector.input["file"]!.string))
            for (name, a, b) in [
                ("target_bytes", read.targetBytes, expected.targetBytes),
                ("spellings", read.spellings, expected.spellings),
                ("expansions", read.expansions, expected.expansions),
            ] {
                try same(name, (0..<a.count).map { a.row($0) }, (0..<b.count).map { b.row($0) })
            }
            try same("direct", read.direct, expected.direct)
            try same("leaves", read.leaves, expected.leaves)
            try same("draft_allowed", read.draftAllowed, expected.draftAllowed)
            try same("draft_fingerprint", read.draftFingerprint, expected.draftFingerprint)
            try same("target_fingerprint", read.targetFingerprint, expected.targetFingerprint)
        }
    }

    func testInvalidMap() throws {
        try run("map/invalid") { vector in
            let given = vector.input
            let data = try given["bytes"].map(\.hex) ?? readFile(vector.file(given["file"]!.string), most: 1 << 28)
            let fault = try faultOf {
                let map = try decodeVocabMap(Bytes(data))
                if let models = given["models"]?.optional?.object {
                    try map.checkFits(
                        draftFingerprint: models["draft_fingerprint"]!.string,
                        targetFingerprint: models["target_fingerprint"]!.string,
                        draftSize: models["draft_size"]!.int, targetSize: models["target_size"]!.int)
                }
            }
            try same("the fault", fault, vector.expected["fault"]!.string)
        }
    }
}
