// Run a training graph of a bundle on a vector of parameters with AdamW's moments (spec/14-train-step.md).

private let vectorNames = ["parameters", "exp_avg", "exp_avg_sq"]
private let updatesName = "updates"
private let next = "next_"

struct StepOutcome: Sendable {
    /// The graph, for messages.
    fileprivate let name: String
    /// Single numbers of the last call, by the names of the graph's outputs.
    fileprivate let values: [String: Double]
    /// Whether the parameters changed.
    let applied: Bool

    /// A single number of the last call.
    ///
    /// - Throws: ``OmniDraftError/bundle(_:)`` `run`: the graph has no such output.
    func value(_ output: String) throws -> Double {
        guard let value = values[output] else { throw runError(name, "it has no output \(output) of 1 number") }
        return value
    }
}

/// A training graph and its parameters. One thread uses it at a time.
final class StepRun {
    /// The parameters at some moment.
    struct Mark {
        fileprivate let vectors: [[Float]]
        fileprivate let updates: Int64
    }

    /// Steps that changed the parameters.
    private(set) var updates: Int64 = 0
    private let graph: any EngineGraph
    private let name: String
    private let stop: any EngineStop
    private let carried: [(name: String, shape: [Int])]
    private var vectors: [[Float]]  // in the order of `vectorNames`

    /// - Throws: ``OmniDraftError/bundle(_:)`` `run`.
    init(_ graph: any EngineGraph, _ begin: [Float], name: String) throws {
        self.graph = graph
        self.name = name
        let zeros = [Float](repeating: 0, count: begin.count)
        vectors = [begin, zeros, zeros]
        do {
            stop = try graph.newStop()
        } catch {
            throw runError(name, reason(error))
        }
        // Inputs that are the outputs of the call before: all that have one, but for the state.
        carried = try (graph.inputs + graph.defaults).compactMap { input in
            let isState = vectorNames.contains(input.name) || input.name == updatesName
            if isState || !graph.outputs.contains(where: { isSame($0.name, next + input.name) }) { return nil }
            let count = input.shape.contains { $0 < 0 } ? mostExact : cappedProduct(input.shape)
            if count > mostParameters { throw runError(name, "its input \(input.name) has no size") }
            return (input.name, input.shape)
        }
    }

    /// The vector, with the layout in the manifest.
    var parameters: [Float] { vectors[0] }

    /// Do one step on a batch in parts. Each call adds to the gradient, the last call applies it.
    ///
    /// - Parameters:
    ///   - parts: give the inputs of each call, at least one; a part is made when its call begins, so that memory holds
    ///     one at a time.
    ///   - budget: asked before each call.
    /// - Returns: nil where the budget ended the step; nothing changed then.
    /// - Throws: ``OmniDraftError/bundle(_:)`` `run`: the engine cannot run the graph.
    func run(_ parts: [() -> Arrays], _ settings: Arrays, _ budget: StepBudget) throws -> StepOutcome? {
        var carry = carried.map { shape in
            (shape.name, TypedArray([Float](repeating: 0, count: cappedProduct(shape.shape)), shape: shape.shape))
        }
        for (number, part) in parts.enumerated() {
            if !budget.goesOn() { return nil }
            let isLast = number == parts.count - 1
            var inputs = part()
            for (name, value) in settings.members + carry.map({ (name: $0.0, value: $0.1) }) { inputs[name] = value }
            for (name, vector) in zip(vectorNames, vectors) { inputs[name] = TypedArray(vector) }
            inputs[updatesName] = TypedArray([updates], shape: [])
            inputs["last"] = TypedArray(one: isLast)
            let outputs = try call(inputs, isLast)
            if isLast { return try finished(outputs) }
            carry = try carried.map { each in
                (
                    each.name,
                    TypedArray(try floats(outputs, next + each.name, cappedProduct(each.shape)), shape: each.shape)
                )
            }
        }
        return nil
    }

    /// The parameters as they are, for ``revert(_:)``.
    func mark() -> Mark { Mark(vectors: vectors, updates: updates) }

    /// The parameters as they were.
    func revert(_ mark: Mark) {
        vectors = mark.vectors
        updates = mark.updates
    }

    /// The vectors and the count, by name.
    func state() -> Arrays {
        var state = Arrays(zip(vectorNames, vectors).map { ($0, TypedArray($1)) })
        state[updatesName] = TypedArray([updates])
        return state
    }

    /// - Throws: ``OmniDraftError/setting(_:)``: the state is of another graph.
    func check(_ state: Arrays) throws {
        let forms = vectorNames.map { ($0, "F32 [\(parameters.count)]") } + [(updatesName, "I64 [1]")]
        for (name, form) in forms {
            let actual = state[name]?.form ?? "nothing"
            if actual == form { continue }
            throw settingError(
                "the state of a learner has \(actual) as \(name) and this learner needs \(form)",
                "go on with the bundle and settings that it was begun with")
        }
    }

    /// Take over a state that ``check(_:)`` accepted.
    func restore(_ state: Arrays) {
        vectors = vectorNames.map { name in
            guard let vector = state[name]?.floats else { preconditionFailure("the state has no \(name)") }
            return vector
        }
        guard let count = state[updatesName]?.longs?.first else { preconditionFailure("the state has no count") }
        updates = count
    }

    /// Take over what a last call gave, if it applied the gradient.
    private func finished(_ outputs: Arrays) throws -> StepOutcome {
        var applied = false
        if case .booleans(let values)? = outputs["applied"]?.values { applied = values == [true] }
        if applied {
            let changed = try vectorNames.map { try floats(outputs, next + $0, parameters.count) }
            guard let count = outputs[next + updatesName]?.longs?.first else {
                throw runError(name, "its output \(next + updatesName) is no count")
            }
            vectors = changed
            updates = count
        }
        var values: [String: Double] = [:]
        for (name, array) in outputs.members where array.shape.isEmpty {
            if let value = array.floats?.first { values[name] = Double(value) }
        }
        return StepOutcome(name: name, values: values, applied: applied)
    }

    private func floats(_ outputs: Arrays, _ name: String, _ count: Int) throws -> [Float] {
        guard let values = outputs[name]?.floats, values.count == count else {
            throw runError(self.name, "it has no output \(name) of \(count) numbers")
        }
        return values
    }

    private func call(_ inputs: Arrays, _ isLast: Bool) throws -> Arrays {
        let tensors = try graph.inputs.map { input in
            guard let value = inputs[input.name] else {
                throw runError(name, "it has an input \(input.name), which a training step does not have")
            }
            return try engineTensor(input.name, value)
        }
        // The vectors only of the last call, since each of them is as large as the parameters.
        let large = vectorNames.map { next + $0 }
        let wanted = graph.outputs.map(\.name).filter { isLast || !large.contains($0) }
        do {
            let outputs = try graph.run(tensors, outputs: wanted, stop)
            return Arrays(try zip(wanted, outputs).map { ($0, try typedArray($1)) })
        } catch let error as OmniDraftError {
            throw error
        } catch {
            throw runError(name, reason(error))
        }
    }

    private func engineTensor(_ input: String, _ array: TypedArray) throws -> EngineTensor {
        guard let memory = EngineMemory(max(1, array.byteCount)) else { throw runError(name, "no memory for \(input)") }
        let type: ElementType
        switch array.values {
        case .floats(let values):
            type = .float32
            values.withUnsafeBytes { memory.bytes.copyMemory(from: $0) }
        case .longs(let values):
            type = .int64
            values.withUnsafeBytes { memory.bytes.copyMemory(from: $0) }
        case .bytes(let values):
            type = .uint8
            values.withUnsafeBytes { memory.bytes.copyMemory(from: $0) }
        case .booleans(let values):
            type = .bool
            for (index, value) in values.enumerated() { memory.bytes[index] = value ? 1 : 0 }
        }
        return EngineTensor(input, type: type, shape: array.shape, memory: memory)
    }

    private func typedArray(_ tensor: EngineTensor) throws -> TypedArray {
        guard let count = tensor.count else { throw runError(name, "its output \(tensor.name) has no size") }
        let bytes = UnsafeRawBufferPointer(
            rebasing: UnsafeRawBufferPointer(tensor.memory.bytes)[..<(count * tensor.type.size)])
        switch tensor.type {
        case .float32: return TypedArray(Array(bytes.bindMemory(to: Float.self)), shape: tensor.shape)
        case .int64: return TypedArray(Array(bytes.bindMemory(to: Int64.self)), shape: tensor.shape)
        case .bool: return TypedArray(bytes.map { $0 != 0 }, shape: tensor.shape)
        case .uint8, .int32, .float16:
            throw runError(name, "its output \(tensor.name) has a type that no training step has")
        }
    }
}

/// The product of sizes, at most 2^53 - 1.
private func cappedProduct(_ shape: [Int]) -> Int {
    shape.reduce(1) { product, size in
        let (whole, overflow) = product.multipliedReportingOverflow(by: size)
        return overflow ? mostExact : min(whole, mostExact)
    }
}
