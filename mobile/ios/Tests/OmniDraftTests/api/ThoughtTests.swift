import Foundation
import XCTest

@testable import OmniDraft

/// A model whose output has a thought.
final class ThoughtTests: XCTestCase {
    private let question = "Mia has 4 boxes with 12 pencils each. She gives 9 to her brother. How many are left?"
    private let config = GenerationConfig(maxNewTokens: 32, numDraftTokens: 4)

    /// The starter model writes no thoughts, so words that it writes are taken for tags.
    func testThoughtAndAnswerAreDifferentPieces() async throws {
        let session = try await PublicModel.shared().session()
        let plain = try await session.result(of: session.generate(question, config))
        let words = plain.text.split(separator: " ").map(String.init)
        let open = try XCTUnwrap(words.first)
        let close = try XCTUnwrap(words.dropFirst(2).first { !words[0].contains($0) && $0 != words[1] })
        let place = scratch("bundle")
        defer { removeTree(place.path) }
        try makeThinking(place, open, close)
        let own = try await OmniDraft.open(place, options: LoadOptions(state: PublicModel.state)).session()
        var pieces: [Piece] = []
        for try await piece in own.generate(question, config) { pieces.append(piece) }
        let found = await own.result
        let result = try XCTUnwrap(found)
        XCTAssertEqual(result.tokenIds, plain.tokenIds)
        XCTAssertEqual(pieces.map(\.text).joined(), plain.text)
        XCTAssertEqual(pieces.flatMap(\.tokenIds), plain.tokenIds)
        let thoughts = pieces.filter { $0.kind == .thought }.map(\.text).joined()
        let answer = pieces.filter { $0.kind == .text }.map(\.text).joined()
        XCTAssertTrue(thoughts.trimmingCharacters(in: .whitespaces).hasPrefix(open), thoughts)
        XCTAssertTrue(thoughts.hasSuffix(close), thoughts)
        XCTAssertFalse(answer.isEmpty)
        XCTAssertEqual(answer.trimmingCharacters(in: .whitespaces), result.answer.trimmingCharacters(in: .whitespaces))
        XCTAssertFalse(result.thought.isEmpty)
        XCTAssertFalse(result.thought.contains(close))
        let first = try XCTUnwrap(pieces.firstIndex { $0.kind == .text && !$0.text.isEmpty })
        XCTAssertFalse(pieces[first...].contains { $0.kind == .thought }, "no thought behind the answer's beginning")
    }

    private func makeThinking(_ place: URL, _ open: String, _ close: String) throws {
        try FileManager.default.copyItem(at: PublicModel.url(StarterBundles.directory("a")), to: place)
        let file = place.appendingPathComponent("manifest.json")
        let manifest = try String(contentsOf: file, encoding: .utf8)
        XCTAssertTrue(manifest.contains("\"think\": null"))
        let tags = "{\"open\": \"\(open)\", \"close\": \"\(close)\", \"earlier\": \"keep\"}"
        let changed = manifest.replacingOccurrences(of: "\"think\": null", with: "\"think\": \(tags)")
        let comma = try XCTUnwrap(changed.firstIndex(of: ","))
        try Data(sealedManifest(Array(changed[changed.index(after: comma)...].utf8))).write(to: file)
    }
}
