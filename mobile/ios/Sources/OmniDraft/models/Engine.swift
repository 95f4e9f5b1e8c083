import Foundation

// What the runtime needs of an engine that runs graphs. The runtime imports no engine: the target OmniDraftORT runs
// graphs with onnxruntime, and hands itself to `OmniDraft.open`.

/// The type of a tensor's elements; the raw value is the number in onnx.proto.
public enum ElementType: Int, Sendable {
    /// A float of 32 bits.
    case float32 = 1
    /// An unsigned integer of 8 bits.
    case uint8 = 2
    /// A signed integer of 32 bits.
    case int32 = 6
    /// A signed integer of 64 bits.
    case int64 = 7
    /// A truth value of one byte.
    case bool = 9
    /// A float of 16 bits.
    case float16 = 10

    /// Bytes of an element.
    public var size: Int {
        switch self {
        case .float32, .int32: return 4
        case .int64: return 8
        case .float16: return 2
        case .bool, .uint8: return 1
        }
    }
}

/// An input or output of a graph.
public struct GraphValue: Sendable, Equatable {
    /// The name in the graph.
    public let name: String
    /// The type of its elements; nil where it is no tensor, or a tensor of a type that no graph of a bundle has.
    public let type: ElementType?
    /// One size for each dimension; -1 where passes choose it.
    public let shape: [Int]

    /// An input or output by its name.
    public init(name: String, type: ElementType?, shape: [Int]) {
        self.name = name
        self.type = type
        self.shape = shape
    }
}

/// Memory that graphs read and write, zeros at first. One thread uses it at a time.
public final class EngineMemory: @unchecked Sendable {
    /// The bytes; they do not move while this object lives.
    public let bytes: UnsafeMutableRawBufferPointer
    private let block: UnsafeMutableRawPointer

    /// Memory of a size, aligned to 64 bytes; nil where the system does not promise that much. Pages that nobody writes
    /// take no room.
    public init?(_ count: Int) {
        guard count >= 0, count < Int.max - 64, let block = calloc(count + 64, 1) else { return nil }
        self.block = block
        let start = (UInt(bitPattern: block) + 63) & ~63
        bytes = UnsafeMutableRawBufferPointer(start: UnsafeMutableRawPointer(bitPattern: start), count: count)
    }

    deinit { free(block) }
}

/// A tensor in some memory, from its first byte on.
public struct EngineTensor: Sendable {
    /// The name of the input or output that it is for.
    public let name: String
    /// The type of its elements.
    public let type: ElementType
    /// One size for each dimension.
    public let shape: [Int]
    /// Where its elements are, in row-major order; several tensors may lie in the same memory.
    public let memory: EngineMemory

    /// A tensor for an input or output, in some memory.
    public init(_ name: String, type: ElementType, shape: [Int], memory: EngineMemory) {
        self.name = name
        self.type = type
        self.shape = shape
        self.memory = memory
    }

    /// Number of elements; nil where a size is negative, or the memory holds fewer.
    public var count: Int? {
        var count = type.size
        for size in shape {
            let (product, overflow) = count.multipliedReportingOverflow(by: size)
            if size < 0 || overflow { return nil }
            count = product
        }
        return count <= memory.bytes.count ? count / type.size : nil
    }
}

/// Kernels of an engine besides those of its own.
public struct EngineProvider: Sendable {
    /// The engine's name of them, such as `XNNPACK`.
    public var name: String
    /// Their settings, by key.
    public var options: [(key: String, value: String)]

    /// Kernels by the engine's name, and their settings.
    public init(_ name: String, options: [(key: String, value: String)] = []) {
        self.name = name
        self.options = options
    }
}

/// How a graph is opened.
public struct GraphOptions: Sendable {
    /// Threads of a pass.
    public var threads: Int
    /// Kernels that are used where they take a part of the graph; nil for the engine's own alone.
    public var provider: EngineProvider?
    /// Entries of the engine's configuration, by key.
    public var entries: [(key: String, value: String)]

    /// How a graph is opened; what is left out is the usual.
    public init(threads: Int = 1, provider: EngineProvider? = nil, entries: [(key: String, value: String)] = []) {
        self.threads = threads
        self.provider = provider
        self.entries = entries
    }
}

/// What an engine refuses, in its own words.
public struct EngineError: Error, Sendable, CustomStringConvertible {
    /// What is wrong.
    public let description: String

    /// What an engine refuses, in a sentence.
    public init(_ description: String) { self.description = description }
}

/// An engine that runs graphs in ONNX format.
public protocol InferenceEngine: Sendable {
    /// The engine's version, such as `1.21.0`.
    var version: String { get }
    /// Names of the providers that it was built with.
    var providers: [String] { get }
    /// Loads a graph from a file; weights in a file beside it are mapped into memory, not read.
    func open(file path: String, _ options: GraphOptions) throws -> any EngineGraph
    /// Loads a graph from bytes; paths of its weights are relative to the folder `weights`.
    func open(bytes: [UInt8], weights: String, _ options: GraphOptions) throws -> any EngineGraph
}

/// A loaded graph. Any number of threads may run it at once.
public protocol EngineGraph: AnyObject, Sendable {
    /// Inputs that each run must be fed.
    var inputs: [GraphValue] { get }
    /// Inputs that have a value in the graph, which a run may replace.
    var defaults: [GraphValue] { get }
    /// What a run gives.
    var outputs: [GraphValue] { get }
    /// Binds memory for runs. A tensor may be an input and an output at once.
    func bind(inputs: [EngineTensor], outputs: [EngineTensor]) throws -> any EngineBinding
    /// Something that ends runs from another thread.
    func newStop() throws -> any EngineStop
    /// Runs the graph once on a binding, which no other thread uses meanwhile.
    func run(_ binding: any EngineBinding, _ stop: any EngineStop) throws
    /// Runs the graph once and gives outputs in memory of their own, in the order of `outputs`.
    func run(_ inputs: [EngineTensor], outputs: [String], _ stop: any EngineStop) throws -> [EngineTensor]
}

/// Inputs and outputs of a run; it keeps their memory alive.
public protocol EngineBinding: AnyObject, Sendable {}

/// Ends runs that were given it, from any thread.
public protocol EngineStop: AnyObject, Sendable {
    /// True ends the run that is going on, and each later one at its beginning, until it is false again.
    func setTerminate(_ isOn: Bool)
}
