// The interface of a language model, as the loop and a session use it.

/// Rows of logits in the memory of a model: they are read in place, and the next pass may overwrite them.
struct Logits {
    private let owner: AnyObject
    /// `rows` x `width` numbers, row after row.
    let values: UnsafePointer<Float>
    let rows: Int
    /// Ids of the vocabulary.
    let width: Int

    init(owner: AnyObject, values: UnsafePointer<Float>, rows: Int, width: Int) {
        self.owner = owner
        self.values = values
        self.rows = rows
        self.width = width
    }

    /// A copy of rows in an array.
    init(_ numbers: [Float], width: Int) {
        let row = Row(max(1, numbers.count))
        for (index, number) in numbers.enumerated() { row.numbers[index] = number }
        self.init(owner: row, values: UnsafePointer(row.numbers), rows: numbers.count / width, width: width)
    }

    /// The numbers of a row, as long as these logits are kept.
    func row(_ row: Int) -> UnsafePointer<Float> {
        precondition(row >= 0 && row < rows)
        return values + row * width
    }
}

/// A pass was not run because the generation was cancelled; the model's context is unchanged.
struct Cancelled: Error {}

/// A causal language model with a context that grows by scoring and shrinks by rewinding.
protocol CausalModel: AnyObject {
    /// Width of the logits; may exceed the tokenizer.
    var vocabSize: Int { get }
    /// Number of positions that the context can hold.
    var maxLength: Int { get }
    /// Number of positions that the context holds now.
    var length: Int { get }

    /// Append tokens to the context and give the logits of the last positions.
    ///
    /// - Parameter numLogits: how many of the last rows to give; all n when nil.
    func score(_ tokens: [Int32], numLogits: Int?) throws -> Logits
    /// Forget every position from `length` on.
    func rewind(_ length: Int)
}

/// A model as a session uses it: cancelled between its passes, and adapted.
protocol SessionModel: CausalModel {
    /// Asked before each run of a graph, and after each that was interrupted; where it answers true, ``Cancelled`` is
    /// thrown.
    var cancelled: () -> Bool { get set }
    /// End the run of a graph that is going on, from any thread; ``cancelled`` decides what comes then.
    func interrupt()
    /// Use an adapter's tensors (float32), by the names of the graph's inputs; with none, the model itself.
    ///
    /// The context was computed with the old weights: rewind to 0 and read it again.
    func useAdapter(_ tensors: [(name: String, tensor: Tensor)]) throws
}
