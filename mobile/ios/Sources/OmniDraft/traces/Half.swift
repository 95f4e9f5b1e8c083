// float16, the IEEE 754 binary16 numbers of a trace (spec/12-trace.md). Swift's own type is not on every Mac that the
// package is built for, so the conversions are here. Both are exact: to the nearest, ties to even, and back without a loss.

private let sign: UInt32 = 0x8000
private let infinity: UInt32 = 0x7c00
private let largestExponent: UInt32 = 31
private let rebias: UInt32 = (127 - 15) << 23  // between the exponents of float32 and float16
private let smallestNormal: UInt32 = (127 - 14) << 23  // 2^-14 as float32
private let overflow: UInt32 = 0x477f_f000  // 65,520 as float32: from here on the nearest float16 is infinite
private let subnormals = 16_777_216.0  // 2^24: a subnormal float16 is a multiple of 2^-24

/// The bits of the float16 that is nearest to a number.
func halfOf(_ number: Float) -> UInt16 {
    let bits = number.bitPattern
    return UInt16((bits >> 16) & sign | halfMagnitude(bits & 0x7fff_ffff))
}

private func halfMagnitude(_ magnitude: UInt32) -> UInt32 {
    if magnitude > Float.infinity.bitPattern {  // NaN stays NaN
        let payload = (magnitude >> 13) & 0x3ff
        return infinity | (payload == 0 ? 0x200 : payload)
    }
    if magnitude >= overflow { return infinity }
    if magnitude >= smallestNormal { return (magnitude + 0xfff + ((magnitude >> 13) & 1) - rebias) >> 13 }
    return UInt32((Double(Float(bitPattern: magnitude)) * subnormals).rounded(.toNearestOrEven))
}

/// The number of some float16 bits, exactly.
func floatOf(half: UInt16) -> Float {
    let bits = UInt32(half)
    let exponent = (bits >> 10) & largestExponent
    let mantissa = bits & 0x3ff
    let magnitude: UInt32
    switch exponent {
    case 0: magnitude = (Float(mantissa) / Float(subnormals)).bitPattern
    case largestExponent: magnitude = Float.infinity.bitPattern | mantissa << 13
    default: magnitude = (exponent << 23 + rebias) | mantissa << 13
    }
    return Float(bitPattern: magnitude | (bits & sign) << 16)
}
