import XCTest

@testable import OmniDraft

/// The numbers of spec/defaults.json that the decoding rules have.
final class DecodingDefaultsTests: XCTestCase {
    func testTheDraftLengthHasTheDefaultNumbers() throws {
        let actual = [
            "longest": Double(longestDraft), "shortest_match": Double(shortestMatch),
            "longest_match": Double(longestMatch), "decay": lengthDecay, "prior_rounds": priorRounds,
            "prior_acceptance": priorAcceptance, "copy_acceptance": copyAcceptance, "text_rounds": textRounds,
            "probe": Double(probeTokens), "first_share": firstShare, "last_share": lastShare,
        ]
        let due = try specDefaults()["draft_length"]!.object.members.map { ($0.name, $0.value.num) }
        XCTAssertEqual(actual, Dictionary(uniqueKeysWithValues: due))
    }

    func testTheRoundHasTheDefaultNumbers() throws {
        let defaults = try specDefaults()
        let (block, lookup) = (defaults["block"]!.object, defaults["prompt_lookup"]!.object)
        XCTAssertEqual(maxDraftTokens, defaults["max_draft_tokens"]!.int)
        XCTAssertEqual(maxProposed, defaults["max_proposed_tokens"]!.int)
        XCTAssertEqual(
            [blockGain, blockExtraSeconds, blockExtraSecondsPerToken],
            ["gain", "extra_seconds", "extra_seconds_per_token"].map { block[$0]!.num })
        XCTAssertEqual([longestSuffix, shortestSuffix], ["longest", "shortest"].map { lookup[$0]!.int })
    }

    func testTheSamplingHasTheDefaultNumbers() throws {
        let (sampling, defaults) = (try SamplingConfig(), try specDefaults())
        let names = ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"]
        XCTAssertEqual(
            [
                sampling.temperature, Double(sampling.topK), sampling.topP, sampling.minP, sampling.repetitionPenalty,
            ], names.map { defaults[$0]!.num })
    }
}
