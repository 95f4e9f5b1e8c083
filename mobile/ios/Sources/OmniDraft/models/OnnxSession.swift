// Graphs of bundles, opened by the engine.

/// A graph on the CPU, with the weights beside it.
///
/// - Parameter provider: of kernels that are used where it has them; nil is the engine's own.
/// - Throws: ``OmniDraftError/bundle(_:)`` `graph`: the engine cannot load the graph.
func cpuSession(
    _ engine: any InferenceEngine, _ path: String, threads: Int, provider: EngineProvider? = nil
) throws -> any EngineGraph {
    try loaded(path) { try engine.open(file: path, GraphOptions(threads: threads, provider: provider)) }
}

/// A graph in memory on the CPU.
///
/// - Throws: ``OmniDraftError/bundle(_:)`` `graph`: the engine cannot load the graph.
func bytesSession(
    _ engine: any InferenceEngine, _ graph: [UInt8], path: String, weights: String, threads: Int
) throws -> any EngineGraph {
    try loaded(path) { try engine.open(bytes: graph, weights: weights, GraphOptions(threads: threads)) }
}

private func loaded(_ path: String, _ open: () throws -> any EngineGraph) throws -> any EngineGraph {
    do {
        return try open()
    } catch let error as OmniDraftError {
        throw error
    } catch {
        let message = "the engine cannot load \(path) (\(reason(error)))"
        throw bundleError("graph", message)
    }
}
