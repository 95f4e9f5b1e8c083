import XCTest

@testable import OmniDraft

private let width = 5_000

private func randomRow(_ spread: Double) -> [Float] {
    let random = SplitMix64(4)
    return (0..<width).map { _ in Float((random.uniform() - 0.5) * spread) }
}

/// Distributions of rows that are wider than a block.
final class SamplingTests: XCTestCase {
    func testWideRowsAreTruncatedAsByAPlainSort() throws {
        let settings = [
            try SamplingConfig(temperature: 1), try SamplingConfig(temperature: 0.7, topK: 50),
            try SamplingConfig(temperature: 1, topK: width + 5), try SamplingConfig(temperature: 1, topP: 0.9),
            try SamplingConfig(temperature: 1, topK: 300, topP: 0.8), try SamplingConfig(temperature: 1, minP: 0.3),
            try SamplingConfig(temperature: 1, topK: 900, topP: 0.95, minP: 0.01, repetitionPenalty: 1.3),
        ]
        let context: [Int32] = [1, 5, 5, 4_999]
        for spread in [0.001, 3, 40] {
            let row = randomRow(spread)
            for sampling in settings {
                let actual = try targetDistribution(
                    Logits(row, width: width), row: 0, sampling: sampling, context: context)
                let due = processed(row, sampling, sampling.repetitionPenalty == 1 ? [] : context)
                let chances = (0..<Int32(width)).map(actual.probability)
                // Ids at the edge of a share may change places, because sums are in float32: their mass is tiny.
                let difference = zip(due, chances).reduce(0) { $0 + abs($1.0 - $1.1) }
                XCTAssertLessThan(difference, 5e-4, "\(sampling), spread \(spread)")
                if sampling.topP == 1 && (1...width).contains(sampling.topK) {
                    XCTAssertEqual(chances.filter { $0 > 0 }.count, sampling.topK)
                }
            }
        }
    }

    func testARowThatIsNothingWhereAGrammarAllowsIsRefused() throws {
        let logits = Logits([-.infinity, 1, 2], width: 3)
        let allowed = Mask(bounds: [0, 1, 1], limit: 1)
        for temperature in [0, 0.7, 1] {
            for isConfident in [false, true] {
                let fault = try faultOf {
                    _ = try draftDistribution(
                        logits, row: 0, temperature: temperature, banned: [], allowed: allowed,
                        isConfident: isConfident)
                }
                XCTAssertEqual(fault, "logits")
            }
        }
    }

    func testSettingsOutsideTheirRangesAreRefusedByName() {
        let refused: [(String, () throws -> Void)] = [
            ("topK", { _ = try SamplingConfig(topK: -1) }),
            ("topP", { _ = try SamplingConfig(topP: .nan) }),
            ("topP", { _ = try SamplingConfig(topP: 0) }),
            ("minP", { _ = try SamplingConfig(minP: 1.5) }),
            ("repetitionPenalty", { _ = try SamplingConfig(repetitionPenalty: 0) }),
            ("repetitionPenalty", { _ = try SamplingConfig(repetitionPenalty: .infinity) }),
            ("temperature", { _ = try SamplingConfig(temperature: 0.00001) }),
            ("temperature", { _ = try SamplingConfig(temperature: .infinity) }),
            ("temperature", { _ = try SamplingConfig(temperature: -1) }),
            ("numDraftTokens", { _ = try FixedLength(Defaults.maxDraftTokens + 1) }),
            ("numDraftTokens", { _ = try FixedLength(-1) }),
        ]
        for (setting, make) in refused {
            let message = settingRefusal(make)
            XCTAssertTrue(message.hasPrefix(setting), "a message begins with the setting: \(message)")
        }
    }
}
