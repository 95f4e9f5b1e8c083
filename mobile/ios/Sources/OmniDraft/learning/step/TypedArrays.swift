// Arrays with a type and sizes: what numpy's arrays are to the Python runtime. They are inputs and outputs of the
// training graphs, and the values of a state file.

/// Named arrays, in the order in which they were put in.
typealias Arrays = ByName<TypedArray>

struct TypedArray: Sendable, Equatable {
    /// The values, row by row.
    enum Values: Sendable, Equatable {
        case floats([Float])
        case longs([Int64])
        /// Bytes, such as a file inside a state.
        case bytes([UInt8])
        /// Truth values, a byte each.
        case booleans([Bool])
    }

    let values: Values
    /// Its sizes, none for a single value.
    let shape: [Int]

    private init(_ values: Values, _ count: Int, _ shape: [Int]?) {
        self.values = values
        self.shape = shape ?? [count]
        // Beside a size 0 a file may have sizes whose product no integer holds.
        precondition((self.shape.contains(0) ? 0 : self.shape.reduce(1, *)) == count, "the shape does not fit")
    }

    init(_ values: [Float], shape: [Int]? = nil) { self.init(.floats(values), values.count, shape) }
    init(_ values: [Int64], shape: [Int]? = nil) { self.init(.longs(values), values.count, shape) }
    init(_ values: [UInt8], shape: [Int]? = nil) { self.init(.bytes(values), values.count, shape) }
    init(_ values: [Bool], shape: [Int]? = nil) { self.init(.booleans(values), values.count, shape) }

    /// One float32, as an input without sizes.
    init(one value: Double) { self.init([Float(value)], shape: []) }
    /// One int64, as an input without sizes.
    init(one value: Int) { self.init([Int64(value)], shape: []) }
    /// One truth value, as an input without sizes.
    init(one value: Bool) { self.init([value], shape: []) }

    /// The values of an array of float32; nil for another type.
    var floats: [Float]? { if case .floats(let values) = values { return values } else { return nil } }
    /// The values of an array of int64; nil for another type.
    var longs: [Int64]? { if case .longs(let values) = values { return values } else { return nil } }

    /// The name that safetensors gives its values.
    var type: String {
        switch values {
        case .floats: return "F32"
        case .longs: return "I64"
        case .bytes: return "U8"
        case .booleans: return "BOOL"
        }
    }

    var valueBytes: Int {
        switch values {
        case .longs: return 8
        case .floats: return 4
        case .bytes, .booleans: return 1
        }
    }

    var byteCount: Int {
        switch values {
        case .floats(let values): return valueBytes * values.count
        case .longs(let values): return valueBytes * values.count
        case .bytes(let values): return values.count
        case .booleans(let values): return values.count
        }
    }

    /// The type and the sizes, for messages and comparisons.
    var form: String { "\(type) [\(shape.map(String.init).joined(separator: ", "))]" }

    func put(_ out: ByteWriter) {
        switch values {
        case .floats(let values): for value in values { out.f32(value) }
        case .longs(let values): for value in values { out.u64(UInt64(bitPattern: value)) }
        case .bytes(let values): out.put(values)
        case .booleans(let values): for value in values { out.u8(value ? 1 : 0) }
        }
    }
}
