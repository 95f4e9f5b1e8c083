import COnnxRuntime
import OmniDraft

/// A session of onnxruntime. The library allows runs from any threads at once.
final class OrtGraph: EngineGraph, @unchecked Sendable {
    let inputs: [GraphValue]
    let defaults: [GraphValue]
    let outputs: [GraphValue]
    private let library: OrtLibrary
    private let session: OpaquePointer

    init(_ library: OrtLibrary, _ session: OpaquePointer?) throws {
        guard let session else { throw EngineError("onnxruntime gave no session") }
        self.library = library
        self.session = session
        let reader = ValueReader(library, session)
        let api = library.api
        do {
            inputs = try reader.values(api.SessionGetInputCount, api.SessionGetInputName, api.SessionGetInputTypeInfo)
            defaults = try reader.values(
                api.SessionGetOverridableInitializerCount, api.SessionGetOverridableInitializerName,
                api.SessionGetOverridableInitializerTypeInfo)
            outputs = try reader.values(
                api.SessionGetOutputCount, api.SessionGetOutputName, api.SessionGetOutputTypeInfo)
        } catch {
            api.ReleaseSession(session)
            throw error
        }
    }

    deinit { library.api.ReleaseSession(session) }

    func bind(inputs: [EngineTensor], outputs: [EngineTensor]) throws -> any EngineBinding {
        try OrtBinding(library, inputs, outputs)
    }

    func newStop() throws -> any EngineStop { try OrtStop(library) }

    func run(_ binding: any EngineBinding, _ stop: any EngineStop) throws {
        guard let binding = binding as? OrtBinding, let stop = stop as? OrtStop else {
            throw EngineError("a binding of another engine")
        }
        try run(binding.inputs, binding.outputs, stop)
    }

    func run(_ inputs: [EngineTensor], outputs: [String], _ stop: any EngineStop) throws -> [EngineTensor] {
        guard let stop = stop as? OrtStop else { throw EngineError("a stop of another engine") }
        let taken = NamedValues(library, outputs)
        try run(NamedValues(library, inputs), taken, stop)
        return try (0..<outputs.count).map { try taken.tensor($0, outputs[$0]) }
    }

    private func run(_ given: NamedValues, _ taken: NamedValues, _ stop: OrtStop) throws {
        let status = library.api.Run(
            session, stop.options, given.names, given.values, given.count, taken.names, taken.count, taken.values)
        try library.check(status)
    }
}

/// Run options of onnxruntime. `RunOptionsSetTerminate` sets a flag that runs ask for, from any thread.
final class OrtStop: EngineStop, @unchecked Sendable {
    let options: OpaquePointer
    private let library: OrtLibrary

    init(_ library: OrtLibrary) throws {
        self.library = library
        var options: OpaquePointer?
        try library.check(library.api.CreateRunOptions(&options))
        guard let options else { throw EngineError("onnxruntime gave no options of a run") }
        self.options = options
        // Failures are reported as errors.
        let level = Int32(ORT_LOGGING_LEVEL_FATAL.rawValue)
        try library.check(library.api.RunOptionsSetRunLogSeverityLevel(options, level))
    }

    deinit { library.api.ReleaseRunOptions(options) }

    func setTerminate(_ isOn: Bool) {
        let api = library.api
        // Both set a flag and cannot fail; a status, if there were one, is freed.
        if let status = isOn ? api.RunOptionsSetTerminate(options) : api.RunOptionsUnsetTerminate(options) {
            api.ReleaseStatus(status)
        }
    }
}

/// Tensors over memory of the caller, with their names, in the form that a run takes. It does not change after its
/// making.
final class OrtBinding: EngineBinding, @unchecked Sendable {
    fileprivate let inputs: NamedValues
    fileprivate let outputs: NamedValues

    init(_ library: OrtLibrary, _ inputs: [EngineTensor], _ outputs: [EngineTensor]) throws {
        self.inputs = try NamedValues(library, inputs)
        self.outputs = try NamedValues(library, outputs)
    }
}

private final class NamedValues {
    let names: UnsafeMutablePointer<UnsafePointer<CChar>?>
    let values: UnsafeMutablePointer<OpaquePointer?>
    let count: Int
    private let library: OrtLibrary
    private let tensors: [EngineTensor]  // keeps their memory alive

    convenience init(_ library: OrtLibrary, _ tensors: [EngineTensor]) throws {
        self.init(library, tensors.map(\.name), tensors)
        for (index, tensor) in tensors.enumerated() { values[index] = try made(tensor) }
    }

    /// Outputs that a run makes values for.
    convenience init(_ library: OrtLibrary, _ names: [String]) { self.init(library, names, []) }

    private init(_ library: OrtLibrary, _ all: [String], _ tensors: [EngineTensor]) {
        self.library = library
        self.tensors = tensors
        count = all.count
        names = .allocate(capacity: max(1, count))
        names.initialize(repeating: nil, count: max(1, count))
        values = .allocate(capacity: max(1, count))
        values.initialize(repeating: nil, count: max(1, count))
        for (index, name) in all.enumerated() { names[index] = copied(name) }
    }

    /// A copy of a value that a run made.
    func tensor(_ index: Int, _ name: String) throws -> EngineTensor {
        let api = library.api
        var info: OpaquePointer?
        try library.check(api.GetTensorTypeAndShape(values[index], &info))
        defer { api.ReleaseTensorTypeAndShapeInfo(info) }
        let form = try formOf(library, info)
        var data: UnsafeMutableRawPointer?
        try library.check(api.GetTensorMutableData(values[index], &data))
        guard let type = form.type else { throw EngineError("the output '\(name)' is of an unknown type") }
        let count = form.shape.reduce(type.size, *)
        guard let data, let memory = EngineMemory(count) else { throw EngineError("no memory for '\(name)'") }
        memory.bytes.copyMemory(from: UnsafeRawBufferPointer(start: data, count: count))
        return EngineTensor(name, type: type, shape: form.shape, memory: memory)
    }

    deinit {
        for index in 0..<count {
            names[index]?.deallocate()
            library.api.ReleaseValue(values[index])
        }
        names.deallocate()
        values.deallocate()
    }

    private func made(_ tensor: EngineTensor) throws -> OpaquePointer? {
        guard let count = tensor.count else { throw EngineError("'\(tensor.name)' is larger than its memory") }
        var value: OpaquePointer?
        let shape = tensor.shape.map(Int64.init)
        let type = ONNXTensorElementDataType(UInt32(tensor.type.rawValue))
        let status = library.api.CreateTensorWithDataAsOrtValue(
            library.memory, tensor.memory.bytes.baseAddress, count * tensor.type.size, shape, shape.count, type, &value)
        try library.check(status)
        return value
    }
}

/// A copy of a text as C has it; who takes it frees it.
func copied(_ text: String) -> UnsafePointer<CChar> {
    let bytes = text.utf8CString
    let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count)
    for (index, byte) in bytes.enumerated() { copy[index] = byte }
    return UnsafePointer(copy)
}

/// Reads the names, types and shapes of a session's inputs and outputs.
private struct ValueReader {
    let library: OrtLibrary
    let session: OpaquePointer

    typealias Count = @convention(c) (OpaquePointer?, UnsafeMutablePointer<Int>?) -> OpaquePointer?
    typealias Name = @convention(c) (
        OpaquePointer?, Int, UnsafeMutablePointer<OrtAllocator>?,
        UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
    ) -> OpaquePointer?
    typealias Info = @convention(c) (OpaquePointer?, Int, UnsafeMutablePointer<OpaquePointer?>?) -> OpaquePointer?

    init(_ library: OrtLibrary, _ session: OpaquePointer) {
        self.library = library
        self.session = session
    }

    func values(_ count: Count, _ name: Name, _ info: Info) throws -> [GraphValue] {
        var number = 0
        try library.check(count(session, &number))
        return try (0..<number).map { index in
            var found: OpaquePointer?
            try library.check(info(session, index, &found))
            defer { library.api.ReleaseTypeInfo(found) }
            return try value(nameOf(name, index), found)
        }
    }

    private func nameOf(_ name: Name, _ index: Int) throws -> String {
        var allocator: UnsafeMutablePointer<OrtAllocator>?
        try library.check(library.api.GetAllocatorWithDefaultOptions(&allocator))
        var text: UnsafeMutablePointer<CChar>?
        try library.check(name(session, index, allocator, &text))
        guard let text else { return "" }
        let found = String(cString: text)
        try library.check(library.api.AllocatorFree(allocator, text))
        return found
    }

    private func value(_ name: String, _ info: OpaquePointer?) throws -> GraphValue {
        let api = library.api
        var tensor: OpaquePointer?
        try library.check(api.CastTypeInfoToTensorInfo(info, &tensor))  // belongs to `info`; nil where it is no tensor
        guard let tensor else { return GraphValue(name: name, type: nil, shape: []) }
        let form = try formOf(library, tensor)
        return GraphValue(name: name, type: form.type, shape: form.shape)
    }
}

private func formOf(_ library: OrtLibrary, _ tensor: OpaquePointer?) throws -> (type: ElementType?, shape: [Int]) {
    let api = library.api
    var type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED
    try library.check(api.GetTensorElementType(tensor, &type))
    var rank = 0
    try library.check(api.GetDimensionsCount(tensor, &rank))
    var sizes = [Int64](repeating: 0, count: rank)
    try library.check(api.GetDimensions(tensor, &sizes, rank))
    return (ElementType(rawValue: Int(type.rawValue)), sizes.map { Int(clamping: $0) })
}
