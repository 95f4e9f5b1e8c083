#if os(Linux)
    import Foundation
    import XCTest

    @testable import OmniDraft

    private let width = 1 << 16
    private let page = 4096
    private let rowPages = 4 * width / page
    private let mmapThreshold: Int32 = -3  // M_MMAP_THRESHOLD of malloc.h
    private let largeBlock: Int32 = 1 << 17  // bytes: less than a row

    /// After the first rounds no memory of the size of a vocabulary is taken.
    ///
    /// The allocator is told to take each large block from the system. Its pages are then new, so each block costs page
    /// faults, which the system counts for each thread. A new thread has no large block of its own that is free.
    final class AllocationTests: XCTestCase {
        override func setUpWithError() throws {
            typealias Mallopt = @convention(c) (Int32, Int32) -> Int32
            let found = try XCTUnwrap(dlsym(nil, "mallopt"), "the allocator has no settings")
            let mallopt = unsafeBitCast(found, to: Mallopt.self)
            XCTAssertEqual(mallopt(mmapThreshold, largeBlock), 1)
        }

        func testALargeBlockIsSeen() throws {
            let counts = try inNewThread {
                try (0..<10).map { _ in
                    let before = try faults()
                    let block = [Float](repeating: 1, count: width)
                    try same("a number of the block", block[width - 1], 1)
                    return try faults() - before
                }
            }
            XCTAssert(counts.allSatisfy { $0 >= rowPages }, "\(counts)")
        }

        func testNoRoundAfterTheFirstTakesMemoryOfTheSizeOfAVocabulary() throws {
            let settings = [
                try SamplingConfig(), try SamplingConfig(temperature: 1),
                try SamplingConfig(temperature: 1, topK: 100, topP: 0.9),
                try SamplingConfig(temperature: 1, repetitionPenalty: 1.2),
                try SamplingConfig(repetitionPenalty: 1.2),
            ]
            for sampling in settings {
                for isBlock in [false, true] where sampling.temperature > 0 || !isBlock {
                    let counts = try inNewThread { try roundFaults(sampling, isBlock: isBlock) }
                    // Room for one more row, or for all options, may be needed for the first time.
                    let large = counts.count { $0 >= rowPages }
                    XCTAssertLessThanOrEqual(large, 2, "\(sampling), block \(isBlock): \(counts)")
                }
            }
        }

        func testNoTracedRowAfterTheFirstTakesMemoryOfTheSizeOfAVocabulary() throws {
            let counts = try inNewThread {
                let random = SplitMix64(2)
                let logits = Logits((0..<width).map { _ in Float(9 * random.uniform()) }, width: width)
                let tracer = Tracer(identityMap())
                return try pageFaults(warm: 2, measured: 5) {
                    guard let row = tracer.row(logits, 0) else { throw VectorFailure(description: "no row") }
                    try same("ids of a row", row.largest(Defaults.traceTop).ids, tracer.roots(row).masses.ids)
                }
            }
            XCTAssert(counts.allSatisfy { $0 < rowPages }, "\(counts)")
        }
    }

    /// What `work` gives in a thread of its own.
    private func inNewThread<T: Sendable>(_ work: @escaping @Sendable () throws -> T) throws -> T {
        let result = Guarded<Result<T, any Error>?>(nil)
        let ended = DispatchSemaphore(value: 0)
        let thread = Thread {
            let made = Result { try work() }
            result.with { $0 = made }
            ended.signal()
        }
        thread.stackSize = 1 << 22
        thread.start()
        ended.wait()
        return try XCTUnwrap(result.with { $0 }).get()
    }

    /// Page faults of this thread so far.
    private func faults() throws -> Int {
        let file = try XCTUnwrap(fopen("/proc/thread-self/stat", "r"))
        defer { fclose(file) }
        var data = [UInt8](repeating: 0, count: 1024)
        let count = fread(&data, 1, data.count, file)
        // The name of the thread, in parentheses, may hold spaces; the faults are the eighth field behind it.
        let line = String(decoding: data.prefix(count), as: UTF8.self)
        let fields = try XCTUnwrap(line.split(separator: ")").last).split(separator: " ")
        return try XCTUnwrap(fields.count > 7 ? Int(fields[7]) : nil)
    }

    /// The page faults of each of `measured` calls, after `warm` others.
    private func pageFaults(warm: Int, measured: Int, _ work: () throws -> Void) throws -> [Int] {
        for _ in 0..<warm { try work() }
        return try (0..<measured).map { _ in
            let before = try faults()
            try work()
            return try faults() - before
        }
    }

    /// The page faults of each of some rounds after the first ones.
    private func roundFaults(_ sampling: SamplingConfig, isBlock: Bool) throws -> [Int] {
        let verifiers: [Verifier] = [verifyTokens, verifyBlock]
        let drafter = Drafter(FixedRows(1))
        let cache = try NgramCache(identityMap())
        let proposer =
            sampling.temperature == 0
            ? MatchProposer(drafter, cache)
            : TrieProposer(drafter, cache, temperature: sampling.temperature, verifier: verifiers[isBlock ? 1 : 0])
        let text = DecoderState()
        text.restart([1, 2], [1, 2], remaining: 1 << 20, cut: cutAtEos([]))
        let loop = Speculation(
            target: FixedRows(2), proposer: proposer, text: text, sampling: sampling, draftLength: try FixedLength(5),
            random: SplitMix64(3))
        return try pageFaults(warm: 8, measured: 16) { _ = try loop.next() }
    }

    private func identityMap() -> VocabMap {
        let ids = (0..<Int32(width)).map { $0 }
        let (single, none) = (Ragged(rows: ids.map { [$0] }), Ragged(rows: ids.map { _ in [] }))
        return VocabMap(
            targetBytes: none, direct: ids, spellings: single, expansions: none, leaves: ids,
            draftAllowed: [Bool](repeating: true, count: width),
            draftFingerprint: String(repeating: "d", count: 64), targetFingerprint: String(repeating: "e", count: 64))
    }

    private final class FixedRows: CausalModel {
        let vocabSize = width
        let maxLength = 1 << 30
        private(set) var length = 0
        private let rows: Logits

        init(_ seed: UInt64) {
            let random = SplitMix64(seed)
            rows = Logits((0..<8 * width).map { _ in Float(12 * random.uniform()) }, width: width)
        }

        func score(_ tokens: [Int32], numLogits: Int?) throws -> Logits {
            length += tokens.count
            return Logits(owner: self, values: rows.values, rows: numLogits ?? tokens.count, width: width)
        }

        func rewind(_ length: Int) { self.length = length }
    }
#endif
