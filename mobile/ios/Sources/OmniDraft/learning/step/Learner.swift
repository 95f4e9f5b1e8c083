/// Whether a step may make its next call of a graph. It is asked between calls, never inside one (spec/08-phones.md).
struct StepBudget {
    /// Asked before each call.
    let goesOn: () -> Bool

    /// A step that runs to its end.
    static var unbounded: StepBudget { StepBudget { true } }
}

/// The result of one training step.
struct Learned: Sendable, Equatable {
    /// Number of this step, from 1.
    let step: Int
    /// Of the batch.
    let loss: Double
    /// Of the gradient before clipping.
    let norm: Double
    /// Whether the loss or the gradient was not finite, so that nothing changed.
    let skipped: Bool
}

/// A drafter's LoRA tensors in training.
protocol Learner: AnyObject {
    /// Learning rate of the next steps; may be set, and is not part of ``state()``.
    var rate: Double { get set }

    /// Do one step on a batch of at least one response.
    ///
    /// - Returns: nil where the budget ended the step between two calls of the graph; nothing changed then.
    func learn(_ responses: [Aligned], _ budget: StepBudget) throws -> Learned?
    /// The adapter learned so far, for a session.
    func adapter() throws -> Adapter
    /// The whole state (tensors, moments, counts), by name.
    func state() -> Arrays
    /// Take over a ``state()``; the next steps are those that would have followed it.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)``: the state is of another learner; nothing changed.
    func restore(_ state: Arrays) throws
}
