import Foundation
import XCTest

@testable import OmniDraft

/// Compiled tokenizers of real models give the ids of the package `tokenizers` on real lines.
///
/// Lines and ids are in the folder that OMNIDRAFT_TOKENIZERS names, else in `tokenizers` beside the bundles;
/// scripts/android/tokenizer_lines.py writes it. OMNIDRAFT_STRIDE is the distance of the texts that are taken.
final class TokenizerLinesTests: XCTestCase {
    private static let names = [
        "starter-a", "starter-b", "starter-drafter", "llama2", "llama3", "qwen2", "gpt2", "phi3",
    ]

    func testIdsOfRealLines() throws {
        let folder = try folder()
        let texts = try lists(joined(folder, "lines.bin"), 1).map { String(decoding: $0, as: UTF8.self) }
        XCTAssertGreaterThanOrEqual(texts.count, 20_000)
        for name in Self.names {
            let ids = try lists(joined(folder, "\(name).ids"), 4).map(idsOf)
            let tokenizer = try Tokenizer(file: joined(folder, "\(name).bin"))
            XCTAssertEqual(ids.count, texts.count, "lists of ids of \(name)")
            let taken = stride(from: 0, to: min(texts.count, ids.count), by: step)
            for index in taken {
                if tokenizer.encode(texts[index]) != ids[index] { XCTFail("\(name): \(texts[index].debugDescription)") }
                let data = Array(texts[index].utf8)
                let spelled = tokenizer.spell(data)
                if spelled.map({ tokenizer.textOf($0) }) != data { XCTFail("\(name) does not spell a text") }
            }
            print("tokenizer \(name): \(Array(taken).count) texts")
        }
    }

    func testFourThreadsShareOneTokenizer() throws {
        let folder = try folder()
        let texts = try lists(joined(folder, "lines.bin"), 1).map { String(decoding: $0, as: UTF8.self) }
        let taken = Array(stride(from: 0, to: texts.count, by: 10 * step))
        for name in ["starter-drafter", "llama3"] {
            let ids = try lists(joined(folder, "\(name).ids"), 4).map(idsOf)
            let tokenizer = try Tokenizer(file: joined(folder, "\(name).bin"))
            let wrong = Guarded(0)
            DispatchQueue.concurrentPerform(iterations: 4) { _ in
                let count = taken.count { tokenizer.encode(texts[$0]) != ids[$0] }
                wrong.with { $0 += count }
            }
            XCTAssertEqual(wrong.with { $0 }, 0, "a thread got other ids")
        }
    }

    /// A debug build is slow.
    private var step: Int {
        if let given = ProcessInfo.processInfo.environment["OMNIDRAFT_STRIDE"].flatMap({ Int($0) }) { return given }
        #if DEBUG
            return 40
        #else
            return 1
        #endif
    }

    private func folder() throws -> String {
        let environment = ProcessInfo.processInfo.environment
        let beside = environment["OMNIDRAFT_BUNDLES"].map { joined(split($0).directory, "tokenizers") }
        guard let folder = environment["OMNIDRAFT_TOKENIZERS"] ?? beside, isDirectory(folder) else {
            throw XCTSkip("there are no tokenizers; scripts/android/tokenizer_lines.py makes them of the task data")
        }
        return folder
    }

    /// The lists of a file: the number of items in 4 bytes, then the items.
    private func lists(_ path: String, _ itemBytes: Int) throws -> [[UInt8]] {
        let data = try mapFile(path)
        var lists: [[UInt8]] = []
        var at = 0
        while at < data.count {
            let end = at + 4 + data.u32(at) * itemBytes
            lists.append(data.array(at + 4, end))
            at = end
        }
        return lists
    }

    private func idsOf(_ list: [UInt8]) -> [Int32] {
        let bytes = Bytes(list)
        return (0..<list.count / 4).map { bytes.i32(4 * $0) }
    }
}
