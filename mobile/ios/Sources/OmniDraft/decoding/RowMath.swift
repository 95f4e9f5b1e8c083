// The loops over whole rows: largest number, exponentials, sums. They decide the host's work of a round. A row is worked on
// in blocks that stay in the nearest cache, without a branch, so that the compiler makes vector instructions of them.

let blockSize = 2048

private typealias Lanes = SIMD8<Float>
private typealias Bits = SIMD8<Int32>

private let farthest: Float = 87  // exp of less than -87 is no normal number
private let log2e: Float = 1.44269504088896341
private let ln2High: Float = 0.693359375  // few bits, so that its product with an exponent is exact
private let ln2Low: Float = -2.12194440e-4
private let rounding: Float = 12_582_912  // 1.5 x 2^23: a number that it is added to is rounded to an integer
private let roundingBits: Int32 = 0x4b40_0000  // the bits of `rounding`
private let bias: Int32 = 127  // of the exponent of a float32

/// What ``exponentials(_:_:largest:temperature:_:)`` makes of the smallest number that it tells apart from minus infinity.
private let least: Float = exponential(Lanes(repeating: -farthest))[0]

/// exp of numbers from -87 to 0, by the polynomial of Cephes' expf; its error is below one unit of the last place.
@inline(__always)
private func exponential(_ x: Lanes) -> Lanes {
    // x = n ln 2 + r, and exp(x) = 2^n exp(r)
    let rounded = x * log2e + rounding
    let n = rounded - rounding
    let r = (x - n * ln2High) - n * ln2Low
    let high = ((1.9875691500e-4 * r + 1.3981999507e-3) * r + 8.3334519073e-3) * r + 4.1665795894e-2
    let low = ((high * r + 1.6666665459e-1) * r + 5.0000001201e-1) * (r * r)
    // The bits of `rounded` are n more than those of `rounding`. A conversion would stop at a number outside its range.
    let exponent = unsafeBitCast(rounded, to: Bits.self) &- (roundingBits &- bias)
    return ((low + r) + 1) * unsafeBitCast(exponent &<< 23, to: Lanes.self)
}

/// The weights of a row: `exp((logit - largest) / temperature)`; a weight of less than 2e-38 may become 0.
///
/// - Parameters:
///   - row: logits; the weights may take their place.
///   - largest: the largest of the logits, finite.
/// - Returns: the sum of each block.
func exponentials(
    _ row: UnsafePointer<Float>, size: Int, largest: Float, temperature: Float,
    into weights: UnsafeMutablePointer<Float>
) -> [Double] {
    var sums: [Double] = []
    sums.reserveCapacity((size + blockSize - 1) / blockSize)
    for base in stride(from: 0, to: size, by: blockSize) {
        let count = min(blockSize, size - base)
        let (from, to) = (row + base, weights + base)
        // To divide by 1 changes nothing and takes long.
        let sum =
            temperature == 1
            ? weighBlock(from, count, largest, nil, to) : weighBlock(from, count, largest, temperature, to)
        sums.append(sum)
    }
    return sums
}

/// Writes the weights of a block, and gives their sum as ``sum(_:_:)`` does.
@inline(__always)
private func weighBlock(
    _ from: UnsafePointer<Float>, _ count: Int, _ largest: Float, _ divisor: Float?, _ to: UnsafeMutablePointer<Float>
) -> Double {
    let (source, target) = (UnsafeRawPointer(from), UnsafeMutableRawPointer(to))
    let (whole, smallest) = (count & ~15, least)
    var (first, second) = (Lanes(repeating: 0), Lanes(repeating: 0))
    for index in stride(from: 0, to: whole, by: 16) {
        let (here, next) = (4 * index, 4 * index + 32)
        let a = weigh(source.loadUnaligned(fromByteOffset: here, as: Lanes.self), largest, divisor, smallest)
        let b = weigh(source.loadUnaligned(fromByteOffset: next, as: Lanes.self), largest, divisor, smallest)
        target.storeBytes(of: a, toByteOffset: here, as: Lanes.self)
        target.storeBytes(of: b, toByteOffset: next, as: Lanes.self)
        first += a
        second += b
    }
    var sum = 0.0
    for lane in 0..<8 { sum += Double(first[lane]) }
    for lane in 0..<8 { sum += Double(second[lane]) }
    for index in whole..<count {
        to[index] = weigh(Lanes(repeating: from[index]), largest, divisor, smallest)[0]
        sum += Double(to[index])
    }
    return sum
}

/// The bits of floats that are not negative ascend as the floats do. So their integers are compared: there are vector
/// instructions for it.
@inline(__always)
private func weigh(_ logits: Lanes, _ largest: Float, _ divisor: Float?, _ smallest: Float) -> Lanes {
    var distance = largest - logits
    if let divisor { distance /= divisor }
    let bits = unsafeBitCast(distance, to: Bits.self)
    let limit = Bits(repeating: Int32(bitPattern: farthest.bitPattern))
    let near = unsafeBitCast(bits.replacing(with: limit, where: bits .> limit), to: Lanes.self)
    let weight = unsafeBitCast(exponential(0 - near) - smallest, to: Bits.self)
    return unsafeBitCast(weight & ~(weight &>> 31), to: Lanes.self)  // 0 instead of a negative one
}

/// The sum of some numbers: in 16 parts of float32, and from there in float64.
func sum(_ numbers: UnsafePointer<Float>, _ count: Int) -> Double {
    var lanes = SIMD16<Float>(repeating: 0)
    let whole = count & ~15
    let raw = UnsafeRawPointer(numbers)
    for index in stride(from: 0, to: whole, by: 16) {
        lanes += raw.loadUnaligned(fromByteOffset: 4 * index, as: SIMD16<Float>.self)
    }
    var sum = 0.0
    for lane in 0..<16 { sum += Double(lanes[lane]) }
    for index in whole..<count { sum += Double(numbers[index]) }
    return sum
}

/// The sum of each block of a row; the last block may be shorter.
func blockSums(_ row: UnsafePointer<Float>, _ size: Int) -> [Double] {
    stride(from: 0, to: size, by: blockSize).map { sum(row + $0, min(blockSize, size - $0)) }
}

/// The sum of the numbers of a row where a mask of zeros and ones has a one.
func maskedSum(_ row: UnsafePointer<Float>, mask: UnsafePointer<Float>, size: Int) -> Double {
    var total = 0.0
    let (numbers, ones) = (UnsafeRawPointer(row), UnsafeRawPointer(mask))
    for base in stride(from: 0, to: size, by: blockSize) {
        let end = min(base + blockSize, size)
        let whole = base + (end - base) & ~15
        var lanes = SIMD16<Float>(repeating: 0)
        for index in stride(from: base, to: whole, by: 16) {
            lanes +=
                numbers.loadUnaligned(fromByteOffset: 4 * index, as: SIMD16<Float>.self)
                * ones.loadUnaligned(fromByteOffset: 4 * index, as: SIMD16<Float>.self)
        }
        var part = 0.0
        for lane in 0..<16 { part += Double(lanes[lane]) }
        for index in whole..<end { part += Double(row[index] * mask[index]) }
        total += part
    }
    return total
}

/// The lowest id of the largest number of a row; of a NaN, where there is one.
func argmax(_ row: UnsafePointer<Float>, _ size: Int) -> Int {
    var (best, largest) = (0, row[0])
    if largest.isNaN { return 0 }
    let raw = UnsafeRawPointer(row)
    let whole = size & ~15
    for base in stride(from: 0, to: size, by: blockSize) {
        let end = min(base + blockSize, size)
        // A block whose numbers are all at most the largest so far needs no second look.
        var isLarger = SIMDMask<SIMD16<Int32>>(repeating: false)
        let limit = SIMD16<Float>(repeating: largest)
        for index in stride(from: base, to: min(end, whole), by: 16) {
            let numbers = raw.loadUnaligned(fromByteOffset: 4 * index, as: SIMD16<Float>.self)
            // swift-format does not know the operator.
            // swift-format-ignore: NoAssignmentInExpressions
            isLarger = isLarger .| (.!(numbers .<= limit))
        }
        if !any(isLarger) && end <= whole { continue }
        for index in base..<end where !(row[index] <= largest) {
            (best, largest) = (index, row[index])
            if largest.isNaN { return best }
        }
    }
    return best
}

/// Copies a row; ids that are not allowed get minus infinity.
func copyRow(_ row: UnsafePointer<Float>, _ size: Int, _ allowed: Mask?, into out: UnsafeMutablePointer<Float>) {
    guard let allowed else { return out.update(from: row, count: size) }
    precondition(allowed.bounds.count == size)
    let limit = allowed.limit
    allowed.bounds.withUnsafeBufferPointer { bounds in
        for id in 0..<size { out[id] = bounds[id] < limit ? row[id] : -.infinity }
    }
}
