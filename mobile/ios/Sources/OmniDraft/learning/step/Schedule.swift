/// The learning rate over a pass (spec/13-learner.md, The rate); the raw value is its name.
enum Schedule: String, Sendable {
    /// For learning without an end.
    case constant
    /// It rises over the first 5 % of the steps and falls to 0 over the last 30 %.
    case decay

    /// The learning rate of a step, from 0, of a pass with this highest rate and `total` steps.
    func rate(at step: Int, of total: Int, highest: Double) -> Double {
        if self == .constant { return highest }
        let rising = Double(step + 1) / max(1, Defaults.learnerWarmUp * Double(total))
        let falling = Double(total - step) / max(1, Defaults.learnerDecay * Double(total))
        return highest * min(1, rising, falling)
    }
}
