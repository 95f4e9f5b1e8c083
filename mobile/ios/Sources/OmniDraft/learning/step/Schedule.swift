// The learning rate over a pass: constant, or with a warm-up and a decay to 0 (spec/13-learner.md, The rate).

/// Learning without an end keeps a constant rate.
let constantSchedule = "constant"
/// A pass over recorded text ends with a rate that falls to 0.
let decayingSchedule = "decay"

private let warmUp = Defaults.learnerWarmUp
private let decay = Defaults.learnerDecay

/// - Throws: ``OmniDraftError/setting(_:)``: the name is unknown.
func checkSchedule(_ schedule: String) throws {
    if schedule != constantSchedule && schedule != decayingSchedule {
        throw settingError("schedule \"\(schedule)\" is unknown", "use constant or decay")
    }
}

/// The learning rate of a step.
///
/// - Parameters:
///   - schedule: "constant", for learning without an end; "decay" rises over the first 5 % of the steps and falls to 0
///     over the last 30 %.
///   - step: from 0.
func rateAt(_ schedule: String, _ rate: Double, step: Int, total: Int) -> Double {
    if schedule == constantSchedule { return rate }
    let rising = Double(step + 1) / max(1, warmUp * Double(total))
    let falling = Double(total - step) / max(1, decay * Double(total))
    return rate * min(1, rising, falling)
}
