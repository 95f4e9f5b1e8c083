// The loops over whole rows: largest number, exponentials, sums. They decide the host's work of a round.
//
// A row is worked on in blocks that stay in the nearest cache. The loops have no branch, so that the compiler makes vector
// instructions of them. Python needs no file like this one: numpy has these loops.

/// Numbers of a block.
let blockSize = 2048

private let lowest: Float = -87  // exp of less is no normal number
private let log2e: Float = 1.44269504088896341
private let ln2High: Float = 0.693359375  // few bits, so that its product with an exponent is exact
private let ln2Low: Float = -2.12194440e-4
private let rounding: Float = 12_582_912  // 1.5 x 2^23: a number that it is added to is rounded to an integer

/// What ``exponentials(_:_:largest:temperature:_:)`` makes of the smallest number that it tells apart from minus infinity.
private let least: Float = exponential(lowest)

/// exp of a number from `lowest` to 0, by the polynomial of Cephes' expf; its error is below one unit of the last place.
@inline(__always)
private func exponential(_ x: Float) -> Float {
    // x = n ln 2 + r, and exp(x) = 2^n exp(r)
    let n = (x * log2e + rounding) - rounding
    let r = (x - n * ln2High) - n * ln2Low
    let high = ((1.9875691500e-4 * r + 1.3981999507e-3) * r + 8.3334519073e-3) * r + 4.1665795894e-2
    let low = ((high * r + 1.6666665459e-1) * r + 5.0000001201e-1) * (r * r)
    let power = Float(bitPattern: UInt32(bitPattern: (Int32(n) &+ 127) << 23))
    return ((low + r) + 1) * power
}

/// The weights of a row: `exp((logit - largest) / temperature)`; a weight of less than 2e-38 may become 0.
///
/// - Parameters:
///   - row: logits; the weights may take their place.
///   - size: numbers of the row.
///   - largest: the largest of the logits, finite.
///   - weights: takes the weights.
/// - Returns: the sum of each block.
func exponentials(
    _ row: UnsafePointer<Float>, _ size: Int, largest: Float, temperature: Float, _ weights: UnsafeMutablePointer<Float>
) -> [Double] {
    var sums: [Double] = []
    sums.reserveCapacity((size + blockSize - 1) / blockSize)
    let smallest = least
    for base in stride(from: 0, to: size, by: blockSize) {
        let count = min(blockSize, size - base)
        let (from, to) = (row + base, weights + base)
        for index in 0..<count {
            let scaled = (from[index] - largest) / temperature
            let weight = exponential(scaled > lowest ? scaled : lowest) - smallest
            to[index] = weight > 0 ? weight : 0
        }
        sums.append(sum(to, count))
    }
    return sums
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
func maskedSum(_ row: UnsafePointer<Float>, _ mask: UnsafePointer<Float>, _ size: Int) -> Double {
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
