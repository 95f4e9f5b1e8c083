import XCTest

@testable import OmniDraft

/// Changed files: each is refused by a named fault, or read and used; nothing else is thrown, and nothing crashes.
final class VocabFuzzTests: XCTestCase {
    func testChangedCaches() throws {
        let faults: Set = [
            "not_a_cache", "truncated", "version", "checksum", "reserved", "width", "limits", "section_length",
            "trailing_bytes", "spelling", "id_range", "duplicate", "order", "counts", "not_canonical",
            "foreign_vocabulary",
        ]
        let maps = try ["toy", "deep", "wide"].map { try vectorMap($0) }
        let files = ChangedFiles(20_261_122)
        let given = try vectorFiles("cache/valid", ".bin").filter { $0.count < 1 << 16 }
        try files.check(given, faults) { given in
            // With right checksums the change reaches the fields; without, only the checksums are tested.
            let change = files.changed(given)
            let data = files.below(8) == 0 ? change : summed(change)
            let table = try decodeCache(Bytes(data))
            XCTAssertEqual(try encodeCache(table), data, "written again, the file is another one")
            let map = files.pick(maps)
            try checkAgainst(table, map)
            try NgramCache(table, map, capacity: 1 + files.below(8)).learn([5, 6, 7], 1)
        }
    }

    /// The file with right checksums, as far as its lengths lead.
    private func summed(_ data: [UInt8]) -> [UInt8] {
        if data.count < cacheHeaderBytes { return data }
        var data = data
        var start = cacheHeaderBytes
        for at in stride(from: 92, to: 132, by: 8) {
            let end = min(data.count, start + Bytes(data).u32(at))
            putU32(&data, at + 4, crc32(data[start..<end]))
            start = end
        }
        putU32(&data, 132, crc32(data[..<132]))
        return data
    }

    func testChangedTokenizers() throws {
        let faults: Set = [
            "not_a_tokenizer", "truncated", "version", "header", "layout", "offset", "role", "id", "merges", "classes",
            "strings", "added", "program", "step",
        ]
        let files = ChangedFiles(20_261_123)
        let given = try vectorFiles("tokenizer", ".bin") + vectorFiles("tokenize", ".bin")
        let texts = ["Hello  world, don't\r\n 12345!", "\u{e9}e\u{301} \u{2581}<s> \u{1F600}"]
        let long = String(repeating: "a", count: 300)
        try files.check(given, faults) { given in
            let tokenizer = Tokenizer(try readTokenizerFile(Bytes(files.changed(given))))
            for text in texts + [long] {
                let ids = tokenizer.encodePrompt(["<s>", text, "</s>"], goesOn: files.below(2) == 0)
                _ = tokenizer.textOf(ids)
                let data = Array(text.utf8)
                if let spelled = tokenizer.spell(data) { XCTAssertEqual(tokenizer.textOf(spelled), data) }
            }
            _ = tokenizer.spell(files.bytes(20))
            let bytes = (0..<Int32(tokenizer.count)).map { tokenizer.bytes(of: $0) }
            _ = vocabularyFingerprint(bytes, tokenizer.controls.map { ($0.id, $0.content) })
        }
    }

    func testChangedMaps() throws {
        let faults: Set = [
            "not_a_map", "truncated", "version", "layout", "trailing_bytes", "missing_tensor", "extra_tensor", "dtype",
            "metadata", "offsets", "sizes", "id_range", "leaves", "direct",
        ]
        let files = ChangedFiles(20_261_124)
        let given = try vectorFiles("map/valid", ".safetensors")
        // No change of some bytes leads to the rare faults; vectors do.
        try files.check(given, faults, rare: ["extra_tensor", "sizes"]) { given in
            // Half of the changes are of a type or a digit, so that the header stays JSON.
            let data = files.below(2) == 0 ? files.changed(given) : otherHeader(given, files)
            try walk(decodeVocabMap(Bytes(data)))
        }
    }

    /// A map with another type of a tensor, or another digit in its header.
    private func otherHeader(_ data: [UInt8], _ files: ChangedFiles) -> [UInt8] {
        let header = 8..<8 + Bytes(data).u32(0)
        let isType = files.below(4) == 0
        let places = header.filter { at in
            isType ? data[at..<min(at + 3, data.count)].elementsEqual("I32".utf8) : (0x30...0x39).contains(data[at])
        }
        if places.isEmpty { return files.changed(data) }
        let at = files.pick(places)
        var changed = data
        changed[at] = isType ? UInt8(ascii: "F") : UInt8(0x30 + files.below(10))
        return changed
    }

    /// Goes through all of a map and of its trie.
    private func walk(_ map: VocabMap) throws {
        _ = try NgramCache(map).prefill()
        let trie = ActiveTrie(map)
        trie.activateAll(map.leaves.indices.filter { !trie.active[$0] })
        for target in 0..<Int32(map.targetSize) {
            _ = map.bytesOf(target)
            let spelling = map.spell(target)
            var node = spelling.first.flatMap { trie.root($0) }
            for token in spelling.dropFirst() { node = node.flatMap { trie.child($0, token) } }
            if let node { XCTAssertLessThanOrEqual(trie.children(node).targets.count, trie.targets(node).count) }
        }
        for draft in 0..<map.draftSize { _ = map.expansions.row(draft) }
    }
}
