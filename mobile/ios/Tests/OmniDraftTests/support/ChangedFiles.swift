import Foundation
import XCTest

@testable import OmniDraft

/// Makes files with changed bytes, the same in each run; the environment variable OMNIDRAFT_FUZZ is the number of files
/// of each kind.
final class ChangedFiles {
    static let number = ProcessInfo.processInfo.environment["OMNIDRAFT_FUZZ"].flatMap { Int($0) } ?? usual
    #if DEBUG
        private static let usual = 200  // a debug build is slow
    #else
        private static let usual = 1_000
    #endif
    private static let some = 1_000  // with this many, some files are read and some are refused
    private static let many = 10_000  // with this many changed files, each fault occurs
    // Bytes; the address sanitizer keeps what was freed.
    private static let mostGrowth = ProcessInfo.processInfo.environment["ASAN_OPTIONS"] == nil ? 256 << 20 : 1 << 30

    private let random: SplitMix64

    init(_ seed: UInt64) { random = SplitMix64(seed) }

    func below(_ count: Int) -> Int { Int(random.uniform() * Double(count)) }

    func pick<T>(_ items: [T]) -> T { items[below(items.count)] }

    func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(below(256)) } }

    /// The file with one or two changes.
    func changed(_ data: [UInt8]) -> [UInt8] {
        var data = data
        for _ in 0...below(2) { changeOnce(&data) }
        return data
    }

    private func changeOnce(_ data: inout [UInt8]) {
        if data.isEmpty { return }
        // Half of the changes are near the beginning, where most fields are.
        let at = below(below(2) == 0 ? min(data.count, 256) : data.count)
        switch below(8) {
        case 0: data[at] = UInt8(below(256))
        case 1: data[at] ^= 1 << UInt8(below(8))
        case 2: data[at] = pick([0, 1, 255, 127, 128])
        case 3: data[at] &+= 1
        case 4:
            let value: UInt8 = pick([0, 255])
            for index in at..<min(at + 4, data.count) { data[index] = value }
        case 5: data.removeSubrange(at...)
        case 6: data.removeSubrange(at..<min(data.count, at + 1 + below(8)))
        default: data.insert(contentsOf: bytes(1 + below(8)), at: at)
        }
    }

    /// Runs `use` with a file for each number, and counts the faults; what is read and used counts as `read`.
    ///
    /// A fault that is not in `faults`, another error, and much memory fail the test. Of some files a quarter must be
    /// refused, and a share of `least` must be read; of many each fault of `faults` that is not in `rare` must come up.
    func check(
        _ given: [[UInt8]], _ faults: Set<String>, rare: Set<String> = [], least: Double = 0.01,
        _ use: ([UInt8]) throws -> Void
    ) throws {
        var seen: [String: Int] = [:]
        XCTAssertFalse(given.isEmpty)
        let peak = mostResidentBytes()
        for _ in 0..<Self.number {
            do {
                let fault = try faultOf { try use(pick(given)) } ?? "read"
                XCTAssert(fault == "read" || faults.contains(fault), "the fault '\(fault)' has no place here")
                seen[fault, default: 0] += 1
            } catch {
                XCTFail("not a named refusal: \(error)")
            }
        }
        print("changed files: \(seen.sorted { $0.key < $1.key })")
        XCTAssertLessThan(mostResidentBytes() - peak, Self.mostGrowth, "memory")
        if Self.number < Self.some { return }
        let read = Double(seen["read"] ?? 0) / Double(Self.number)
        XCTAssert(read >= least && read <= 0.75, "too few or too many were read: \(seen)")
        if Self.number < Self.many { return }
        let missing = faults.subtracting(rare).subtracting(seen.keys)
        XCTAssert(missing.isEmpty, "some faults never came up: \(missing)")
    }
}

/// Writes a number of 4 bytes, such as a checksum.
func putU32(_ data: inout [UInt8], _ at: Int, _ number: UInt32) {
    for index in 0..<4 { data[at + index] = UInt8(truncatingIfNeeded: number >> UInt32(8 * index)) }
}

/// The files of a folder of vectors whose names end so.
func vectorFiles(_ folder: String, _ end: String) throws -> [[UInt8]] {
    try namesIn("\(vectorRoot)/\(folder)").filter { $0.hasSuffix(end) }.map {
        try readFile("\(vectorRoot)/\(folder)/\($0)", most: .max)
    }
}
