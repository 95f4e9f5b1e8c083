import XCTest

@testable import OmniDraft

/// float16, compared with its definition and not with another conversion.
final class HalfTests: XCTestCase {
    func testEveryFloat16IsItsOwnNearest() {
        let wrong = (0...UInt16.max).filter { halfOf(floatOf(half: $0)) != $0 }
        XCTAssertEqual(wrong, [])
    }

    func testEveryFloat16HasTheValueOfItsFields() {
        for bits in 0...UInt16.max {
            let (exponent, mantissa) = (Int(bits >> 10) & 31, Double(bits & 0x3ff))
            let magnitude: Double
            switch exponent {
            case 0: magnitude = mantissa * 0x1p-24
            case 31: magnitude = mantissa == 0 ? .infinity : .nan
            default: magnitude = (1024 + mantissa) * powerOfTwo(exponent - 25)
            }
            let actual = Double(floatOf(half: bits))
            let expected = bits & 0x8000 == 0 ? magnitude : -magnitude
            if expected.isNaN ? !actual.isNaN : actual != expected { XCTFail("bits \(bits): \(actual)") }
        }
    }

    func testANumberBecomesTheNearestFloat16AndOfTwoEquallyNearOnesTheEven() {
        let random = SplitMix64(1)
        var numbers = (0..<5_000).map { _ in Float(bitPattern: UInt32(truncatingIfNeeded: random.nextU64())) }
        numbers += (0..<10_000).map { _ in Float(random.uniform()) }
        numbers += (0..<UInt16(0x7c00)).map(middle)
        numbers += (0..<5_000).map { _ in
            Float(random.uniform()) * Float(powerOfTwo(Int(random.nextU64() % 40) - 30))
        }
        for number in numbers {
            if number.isNaN { XCTAssert(floatOf(half: halfOf(number)).isNaN) } else { checkNearest(number) }
        }
    }

    private func powerOfTwo(_ exponent: Int) -> Double { Double(sign: .plus, exponent: exponent, significand: 1) }

    /// The number half way between a float16 and the next one; no float16 above the largest.
    private func middle(_ bits: UInt16) -> Float {
        let next = bits + 1 == 0x7c00 ? 65536 : floatOf(half: bits + 1)
        return (floatOf(half: bits) + next) / 2
    }

    private func checkNearest(_ number: Float) {
        let bits = halfOf(number)
        XCTAssertEqual(number.sign == .minus, bits >= 0x8000, "sign of \(number)")
        let magnitude = bits & 0x7fff
        let distance = distance(number, magnitude)
        var others: [UInt16] = []
        if magnitude > 0 { others.append(magnitude - 1) }
        if magnitude < 0x7c00 { others.append(magnitude + 1) }
        for other in others {
            let its = self.distance(number, other)
            if distance > its || (distance == its && magnitude % 2 != 0) { XCTFail("\(number) is \(bits)") }
        }
    }

    /// How far a number is from a float16, exactly: both are float32; infinity counts as 2^16, which comes after the
    /// largest.
    private func distance(_ number: Float, _ bits: UInt16) -> Double {
        let half = bits == 0x7c00 ? 65536 : Double(floatOf(half: bits))
        return abs(min(Double(number.magnitude), 65536) - half)
    }
}
