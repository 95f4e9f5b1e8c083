/// A float32 tensor: its sizes, and its values in row-major order. What numpy arrays are in Python.
struct FloatTensor: Sendable, Equatable {
    /// Sizes of the dimensions; their product is the number of values.
    let shape: [Int]
    var values: [Float]

    init(shape: [Int], values: [Float]) {
        precondition(shape.reduce(1, *) == values.count, "the shape does not fit")
        self.shape = shape
        self.values = values
    }

    init(zeros shape: [Int]) { self.init(shape: shape, values: [Float](repeating: 0, count: shape.reduce(1, *))) }
}
