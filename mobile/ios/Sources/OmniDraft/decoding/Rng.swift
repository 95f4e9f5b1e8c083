// Randomness as an argument: SplitMix64, the same numbers in every language (spec/04-speculation.md, section 1). A test can
// replace it by an enumerator, which visits every outcome of the real code with its exact probability.

protocol RandomSource: AnyObject {
    /// True with the given probability (values >= 1 always, <= 0 never).
    func bernoulli(_ probability: Double) -> Bool
    /// An index drawn in proportion to `count` non-negative weights, of which there is one at least.
    func categorical(_ weights: UnsafePointer<Double>, count: Int) -> Int
    /// A token drawn from a distribution, or from the distribution restricted to the ids `among`.
    func sample(_ distribution: any Distribution, among: [Int32]?) -> Int32
    /// A token drawn from a distribution and kept with probability `share(token)`, or nil.
    func rejectionSample(_ distribution: any Distribution, _ share: (Int32) -> Double) -> Int32?
}

extension RandomSource {
    func sample(_ distribution: any Distribution) -> Int32 { sample(distribution, among: nil) }
}

/// A ``RandomSource`` on Steele, Lea and Flood's generator (OOPSLA 2014): 64 bits of state, no tables.
///
/// Each question takes one uniform number, in the order asked. A question with a single answer takes none, so greedy
/// decoding never changes the state.
class SplitMix64: RandomSource {
    /// 64 bits; the seed at the beginning.
    var state: UInt64

    init(_ seed: UInt64) { state = seed }

    func nextU64() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }

    /// A number from 0 to before 1 from the upper 53 bits; the same number in every language.
    func uniform() -> Double { Double(nextU64() >> 11) * 0x1p-53 }

    func bernoulli(_ probability: Double) -> Bool { probability >= 1 || (probability > 0 && uniform() < probability) }

    func categorical(_ weights: UnsafePointer<Double>, count: Int) -> Int { inverse(count, uniform()) { weights[$0] } }

    func sample(_ distribution: any Distribution, among: [Int32]?) -> Int32 {
        if let among, among.count == 1 { return among[0] }
        return distribution.draw(distribution.isCertain ? 0 : uniform(), among: among)
    }

    func rejectionSample(_ distribution: any Distribution, _ share: (Int32) -> Double) -> Int32? {
        let token = sample(distribution)
        return bernoulli(share(token)) ? token : nil
    }
}

/// A seed from the operating system, for a generation without a given seed.
///
/// It has 53 bits, so that every reader of JSON gets the same number.
func freshSeed() -> UInt64 { UInt64.random(in: 0...UInt64.max) >> 11 }
