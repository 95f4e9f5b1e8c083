import Foundation
import XCTest

@testable import OmniDraft

private let widths = [1, 13, blockSize - 1, blockSize, blockSize + 1, 3 * blockSize, 32_000]

/// Numbers between -spread / 2 and spread / 2.
private func randomRow(_ width: Int, _ spread: Double, seed: UInt64 = 1) -> [Float] {
    let random = SplitMix64(seed)
    return (0..<width).map { _ in Float((random.uniform() - 0.5) * spread) }
}

/// The loops over rows, beside the same in float64 and one number after another.
final class RowMathTests: XCTestCase {
    func testTheLargestNumberIsFoundWhereverItIs() {
        for width in widths {
            for at in Set([0, width / 2, width - 1]) {
                var row = randomRow(width, 10)
                row[at] = 20
                XCTAssertEqual(argmax(row, width), at, "place in \(width)")
            }
        }
    }

    func testOfEqualNumbersTheLowestIdCounts() {
        for width in widths {
            XCTAssertEqual(argmax([Float](repeating: 0, count: width), width), 0)
            XCTAssertEqual(argmax([Float](repeating: -.infinity, count: width), width), 0)
            var row = randomRow(width, 1)
            for at in [width - 1, 3 * width / 4, width / 3] { row[at] = 2 }
            XCTAssertEqual(argmax(row, width), width / 3)
        }
    }

    func testANanCountsAsTheLargest() {
        for nan in [Float.nan, -Float.nan] {
            for width in widths {
                var row = randomRow(width, 10)
                row[width / 2] = .infinity
                row[width - 1] = nan
                XCTAssertEqual(argmax(row, width), width - 1, "NaN in \(width)")
            }
        }
    }

    func testTheSecondRowIsReadFromItsPlace() {
        var rows = randomRow(2 * 5000, 10)
        rows[5000 + 4321] = 30
        let logits = Logits(rows, width: 5000)
        withExtendedLifetime(logits) { XCTAssertEqual(argmax(logits.row(1), 5000), 4321) }
    }

    func testExponentialsAreRightToFloat32() {
        for width in widths {
            for temperature in [Float(1), 0.3, 7] {
                let logits = randomRow(width, 60)
                let largest = logits[argmax(logits, width)]
                var weights = [Float](repeating: 0, count: width)
                let sums = exponentials(logits, size: width, largest: largest, temperature: temperature, into: &weights)
                var wrong: [Double] = []
                for id in 0..<width {
                    let x = Double((logits[id] - largest) / temperature)
                    if !(weights[id] >= 0 && abs(Double(weights[id]) - exp(x)) <= exp(x) * 3e-7 + 2e-38) {
                        wrong.append(x)
                    }
                }
                XCTAssertEqual(wrong, [], "arguments whose exponential is wrong")
                let whole = weights.reduce(0) { $0 + Double($1) }
                XCTAssertEqual(sums.reduce(0, +), whole, accuracy: 1e-6 * whole)
                let inPlace = Row(width)
                for id in 0..<width { inPlace.numbers[id] = logits[id] }
                _ = exponentials(
                    inPlace.numbers, size: width, largest: largest, temperature: temperature, into: inPlace.numbers)
                XCTAssertEqual((0..<width).map { inPlace.numbers[$0] }, weights, "in place")
            }
        }
    }

    func testTheLargestHasWeightOneAndMinusInfinityHasNone() {
        let row: [Float] = [3, -.infinity, -3.4e38, 3, 2]
        var weights = [Float](repeating: 9, count: row.count)
        _ = exponentials(row, size: row.count, largest: 3, temperature: 1, into: &weights)
        XCTAssertEqual(Array(weights.prefix(4)), [1, 0, 0, 1])
    }

    func testSumsUnderAMaskAreThoseOfItsOnes() {
        for width in widths {
            let weights = randomRow(width, 1).map(abs)
            let mask = (0..<width).map { Float($0 % 3 == 0 ? 1 : 0) }
            let due = stride(from: 0, to: width, by: 3).reduce(0) { $0 + Double(weights[$1]) }
            XCTAssertEqual(maskedSum(weights, mask: mask, size: width), due, accuracy: 1e-6 * due)
        }
    }
}
