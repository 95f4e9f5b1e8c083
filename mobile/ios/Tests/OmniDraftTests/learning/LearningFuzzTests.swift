import XCTest

@testable import OmniDraft

/// Checkpoints with changed bytes are refused, or read; nothing else happens. OMNIDRAFT_FUZZ is the number of files.
final class LearningFuzzTests: XCTestCase {
    private let files = ChangedFiles(20_261_122)

    func testStatesWithChangedBytes() throws {
        try inDirectory { place in
            let file = "\(place)/state.safetensors"
            let parameters = TypedArray([Float](repeating: 0, count: 5))
            let arrays = Arrays([("parameters", parameters), ("counts", TypedArray([Int64](repeating: 0, count: 2)))])
            let settings: JsonObject = ["rate": .double(0.001), "steps": .int(3)]
            try learnerCheckpoint.write(file, arrays, ["settings": .object(settings)])
            let whole = try readFile(file, most: 1 << 20)
            XCTAssertEqual(try learnerCheckpoint.read(file).arrays, arrays)
            try files.check([whole], [""]) { given in
                try put(file, changed(given))
                let (arrays, metadata) = try learnerCheckpoint.read(file)
                _ = try encodeState(arrays, JsonObject(metadata.members.map { ($0.name, .string("\($0.value)")) }))
            }
        }
    }

    func testCheckpointsWithChangedBytes() throws {
        let of = AdaptationOf(facts: [("target", fingerprint("f")), ("drafter", fingerprint("b"))])
        try inDirectory { place in
            let directory = LearnedDirectory(place)
            let learner = Arrays([("parameters", TypedArray([Float](repeating: 0, count: 5)))])
            let state = LearningCheckpoint(
                progress: progress(), learner: learner, good: learner, used: try adapter(), base: nil)
            try directory.write(state, of)
            let file = "\(place)/checkpoint.safetensors"
            let whole = try readFile(file, most: 1 << 20)
            let read = try XCTUnwrap(try directory.read(of))
            XCTAssertEqual(read.progress, state.progress)
            XCTAssertEqual(read.used?.digest, state.used?.digest)
            XCTAssertEqual(read.learner, learner)
            try files.check([whole], [""]) { given in
                try put(file, changed(given))
                _ = try directory.read(of)
            }
        }
    }

    /// Changes of the progress alone, which a change of the file's bytes seldom leaves readable.
    func testProgressWithChangedBytes() throws {
        let whole = try stateJson(.object(progress().json))
        XCTAssertEqual(try AdaptationProgress(json: parseJson(whole)), progress())
        try files.check([whole], [""]) { given in
            do {
                let progress = try AdaptationProgress(json: parseJson(changed(given)))
                XCTAssertEqual(try AdaptationProgress(json: parseJson(stateJson(.object(progress.json)))), progress)
            } catch let error as ValueError {
                throw settingError(error.message)
            }
        }
    }

    /// A file with one other byte, often one that JSON has, or with the other changes.
    private func changed(_ data: [UInt8]) -> [UInt8] {
        if files.below(4) == 0 { return files.changed(data) }
        var out = data
        let letters = Array("0123456789-[]{}\",:eE. ".utf8)
        out[files.below(out.count)] = files.below(2) == 0 ? UInt8(files.below(256)) : files.pick(letters)
        return out
    }

    private func progress() -> AdaptationProgress {
        var progress = AdaptationProgress()
        progress.answered = 9
        progress.version = 1
        progress.learned = 1
        progress.rateScale = 0.5
        progress.memory = [1, 2]
        progress.pending = [9]
        progress.guardState.reference = [AnswerCounts(tokens: 5, passes: 2)]
        progress.places = [AnswerPlace(number: 9, segment: 1, record: 4)]
        progress.read = AnswerPlace(number: 9, segment: 1, record: 4)
        progress.unfinished = UnfinishedLearning(new: [3], earlier: [1], done: 1, applied: true)
        return progress
    }

    private func adapter() throws -> Adapter {
        let sites = ByName([("layers.0.o", SitePair(a: FloatTensor(zeros: [2, 1]), b: FloatTensor(zeros: [1, 3])))])
        return try Adapter(
            base: fingerprint("a"), draftTokenizer: fingerprint("d"), targetTokenizer: fingerprint("e"), tensors: sites,
            created: "2026-01-02T03:04:05Z")
    }

    private func fingerprint(_ digit: String) -> String { String(repeating: digit, count: 64) }
}
