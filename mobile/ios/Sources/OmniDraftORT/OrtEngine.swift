import COnnxRuntime
import Foundation
import OmniDraft

// onnxruntime by its C API: the Objective-C API names no way to end a run.

/// The engine of onnxruntime, one for a process.
public final class OrtEngine: InferenceEngine {
    /// The engine; opening the first bundle makes it.
    ///
    /// - Throws: `OmniDraftError.bundle`: the library is older than its header.
    public static func shared() throws -> OrtEngine { try made.get() }

    private static let made = Result { try OrtEngine() }

    /// The version of the library.
    public let version: String
    /// Providers that the library was built with.
    public let providers: [String]
    private let library: OrtLibrary

    private init() throws {
        library = try OrtLibrary()
        version = library.version
        providers = try library.providers()
    }

    public func open(file path: String, _ options: GraphOptions) throws -> any EngineGraph {
        let settings = try SessionSettings(library, options)
        var session: OpaquePointer?
        try library.check(library.api.CreateSession(library.environment, path, settings.handle, &session))
        return try OrtGraph(library, session)
    }

    public func open(bytes: [UInt8], weights: String, _ options: GraphOptions) throws -> any EngineGraph {
        var options = options
        options.entries.append((key: "session.model_external_initializers_file_folder_path", value: weights))
        let settings = try SessionSettings(library, options)
        var session: OpaquePointer?
        try bytes.withUnsafeBytes {
            let status = library.api.CreateSessionFromArray(
                library.environment, $0.baseAddress, $0.count, settings.handle, &session)
            try library.check(status)
        }
        return try OrtGraph(library, session)
    }
}

/// The functions of the library and its environment. They are set once and are safe to call from any thread.
final class OrtLibrary: @unchecked Sendable {
    let api: OrtApi
    let environment: OpaquePointer
    let memory: OpaquePointer
    let version: String

    init() throws {
        // Nothing here leaves the device, so usage is not reported. From 1.29 on the library asks this variable before
        // there is an environment whose events can be disabled.
        setenv("ORT_DISABLE_TELEMETRY", "1", 1)
        guard let base = OrtGetApiBase(), let table = base.pointee.GetApi(UInt32(ORT_API_VERSION)) else {
            let message = "the library onnxruntime lacks version \(ORT_API_VERSION) of its interface"
            throw OmniDraftError.bundle(Refusal(fault: "run", message: message, remedy: "link a newer onnxruntime"))
        }
        api = table.pointee
        version = base.pointee.GetVersionString().map { String(cString: $0) } ?? ""
        var environment: OpaquePointer?
        var memory: OpaquePointer?
        try checkStatus(api, api.CreateEnv(ORT_LOGGING_LEVEL_ERROR, "omnidraft", &environment))
        try checkStatus(api, api.CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory))
        guard let environment, let memory else { throw EngineError("onnxruntime gave no environment") }
        self.environment = environment
        self.memory = memory
        try check(api.DisableTelemetryEvents(environment))
    }

    /// Throws what a status says; none is success.
    func check(_ status: OpaquePointer?) throws { try checkStatus(api, status) }

    /// Names of the providers in the library.
    func providers() throws -> [String] {
        var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
        var count: Int32 = 0
        try check(api.GetAvailableProviders(&names, &count))
        guard let names else { return [] }
        let found = (0..<Int(count)).compactMap { names[$0].map { String(cString: $0) } }
        try check(api.ReleaseAvailableProviders(names, count))
        return found
    }
}

private func checkStatus(_ api: OrtApi, _ status: OpaquePointer?) throws {
    guard let status else { return }
    let message = api.GetErrorMessage(status).map { String(cString: $0) } ?? "no reason given"
    api.ReleaseStatus(status)
    throw EngineError(message)
}

/// How long the threads of a session spin before they sleep, as an entry of the engine's configuration.
///
/// Waking a thread takes longer than many operators, and threads that spin cost battery. So they spin for 0.2 ms, which is
/// longer than the work between two passes of plain decoding. Engines before 1.26 know no time: there threads spin within
/// a pass, and sleep between passes.
///
/// - Parameter version: of onnxruntime, such as `1.27.0`.
func spinning(_ version: String) -> (key: String, value: String) {
    let parts = version.split(separator: ".").map { Int($0) ?? 0 } + [0, 0]
    let knowsTimes = (parts[0], parts[1]) >= (1, 26)
    return knowsTimes ? ("session.intra_op.spin_duration_us", "200") : ("session.force_spinning_stop", "1")
}

/// Options of a session on the CPU.
private final class SessionSettings {
    let handle: OpaquePointer?
    private let library: OrtLibrary

    init(_ library: OrtLibrary, _ options: GraphOptions) throws {
        self.library = library
        var handle: OpaquePointer?
        try library.check(library.api.CreateSessionOptions(&handle))
        self.handle = handle
        let api = library.api
        try library.check(api.SetIntraOpNumThreads(handle, Int32(clamping: options.threads)))
        try library.check(api.SetInterOpNumThreads(handle, 1))
        // Each failure is an error of its own.
        try library.check(api.SetSessionLogSeverityLevel(handle, Int32(ORT_LOGGING_LEVEL_FATAL.rawValue)))
        // Whatever a file's name is: no other format can be checked.
        try add("session.load_model_format", "ONNX")
        let spin = spinning(library.version)
        try add(spin.key, spin.value)
        // Work is cut into blocks that shrink, so that fast cores do not wait for a slow one.
        if options.threads > 1 { try add("session.dynamic_block_base", "4") }
        // A small graph can name constants of any size, and folding them would take that memory and time while it is
        // loaded. Exported graphs hold nothing to fold; adopted graphs compute some twenty small values in each pass.
        try add("optimization.disable_specified_optimizers", "ConstantFolding")
        for (key, value) in options.entries { try add(key, value) }
        if let provider = options.provider { try append(provider, options.threads) }
    }

    deinit { library.api.ReleaseSessionOptions(handle) }

    private func add(_ key: String, _ value: String) throws {
        try library.check(library.api.AddSessionConfigEntry(handle, key, value))
    }

    /// By name: a library that was built without the provider refuses it, and no header of it is needed.
    private func append(_ provider: EngineProvider, _ threads: Int) throws {
        var options = provider.options
        if provider.name == "XNNPACK" { options.append((key: "intra_op_num_threads", value: String(threads))) }
        let keys = CTexts(options.map(\.key))
        let values = CTexts(options.map(\.value))
        let status = library.api.SessionOptionsAppendExecutionProvider(
            handle, provider.name, keys.pointers, values.pointers, options.count)
        try library.check(status)
    }
}

/// Texts as C has them, while this object lives.
private final class CTexts {
    let pointers: UnsafeMutablePointer<UnsafePointer<CChar>?>
    private let count: Int

    init(_ texts: [String]) {
        count = texts.count
        pointers = .allocate(capacity: max(1, count))
        pointers.initialize(repeating: nil, count: max(1, count))
        for (index, text) in texts.enumerated() { pointers[index] = copied(text) }
    }

    deinit {
        for index in 0..<count { pointers[index]?.deallocate() }
        pointers.deallocate()
    }
}
