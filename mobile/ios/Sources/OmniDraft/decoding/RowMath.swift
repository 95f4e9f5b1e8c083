import CRowMath

// The loops over whole rows: largest number, exponentials, sums. They decide the host's work of a round. A row is worked on
// in blocks that stay in the nearest cache, without a branch, by vector instructions (CRowMath).

let blockSize = 2048

/// The weights of a row: `exp((logit - largest) / temperature)`; a weight of less than 2e-38 may become 0.
///
/// - Parameters:
///   - row: logits; the weights may take their place.
///   - largest: the largest of the logits, finite.
/// - Returns: the sum of each block, as ``blockSums(_:_:)`` gives it.
func exponentials(
    _ row: UnsafePointer<Float>, size: Int, largest: Float, temperature: Float,
    into weights: UnsafeMutablePointer<Float>
) -> [Double] {
    blocks(size) { row_weigh(row + $0, $1, largest, temperature, weights + $0) }
}

/// The sum of each block of a row, in 16 parts of float32 and from there in float64; the last block may be shorter.
func blockSums(_ row: UnsafePointer<Float>, _ size: Int) -> [Double] { blocks(size) { row_sum(row + $0, $1) } }

/// The sum of the numbers of a row where a mask of zeros and ones has a one.
func maskedSum(_ row: UnsafePointer<Float>, mask: UnsafePointer<Float>, size: Int) -> Double {
    blocks(size) { row_masked_sum(row + $0, mask + $0, $1) }.reduce(0, +)
}

/// A number for each block, of its first index and its length.
private func blocks(_ size: Int, _ number: (Int, Int) -> Double) -> [Double] {
    stride(from: 0, to: size, by: blockSize).map { number($0, min(blockSize, size - $0)) }
}

/// The lowest id of the largest number of a row; of a NaN, where there is one.
func argmax(_ row: UnsafePointer<Float>, _ size: Int) -> Int { row_argmax(row, size) }

/// Copies a row; ids that are not allowed get minus infinity.
func copyRow(_ row: UnsafePointer<Float>, _ size: Int, _ allowed: Mask?, into out: UnsafeMutablePointer<Float>) {
    guard let allowed else { return out.update(from: row, count: size) }
    precondition(allowed.bounds.count == size)
    let limit = allowed.limit
    allowed.bounds.withUnsafeBufferPointer { bounds in
        for id in 0..<size { out[id] = bounds[id] < limit ? row[id] : -.infinity }
    }
}
