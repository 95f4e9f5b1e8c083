// When a trained head ends a draft. A port may leave this file out; it then never asks a head.
//
// Everything drawn is in the draft, so stopping early changes no distribution, only speed.

/// The probability that a draft token is accepted: the odds of both arguments multiplied.
///
/// - Parameters:
///   - acceptance: output of the head; 1 of an untrained head, and then nothing is refused.
///   - confidence: probability of the token in the drafter's distribution that it was drawn from, at temperature 1.
func survivalOf(_ acceptance: Double, _ confidence: Double) -> Double {
    if acceptance >= 1 { return 1 }
    let oddsFor = acceptance * confidence
    let oddsAgainst = (1 - acceptance) * (1 - confidence)
    return oddsFor + oddsAgainst > 0 ? oddsFor / (oddsFor + oddsAgainst) : 0.5
}

/// How many more draft tokens pay; 0 where none does.
///
/// - Parameters:
///   - gains: target tokens that draft token 1, 2, ... more is expected to give.
///   - seconds: that 1, 2, ... more draft tokens take.
///   - worth: target tokens that a second gives otherwise.
func moreTokens(_ gains: [Double], _ seconds: [Double], _ worth: Double) -> Int {
    var (total, best, count) = (0.0, 0.0, 0)
    for (index, gain) in gains.enumerated() {
        total += gain
        let value = total - worth * seconds[index]
        if value > best { (best, count) = (value, index + 1) }
    }
    return count
}
