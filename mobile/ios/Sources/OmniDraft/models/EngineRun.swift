/// Runs a graph on bindings, one after another. Another thread can end a run, and an error of the engine is a sentence
/// with its name. `interrupt` may be called from any thread; `run` by one at a time.
final class EngineRun: @unchecked Sendable {
    private let graph: any EngineGraph
    private let name: String
    // Each model has its own: what stops a pass stops all passes that use it.
    private let stop: any EngineStop
    // Never locked while a graph runs: cancelling does not wait for a pass.
    private let wasAsked = Guarded(false)

    init(_ graph: any EngineGraph, name: String) throws {
        self.graph = graph
        self.name = name
        do {
            stop = try graph.newStop()
        } catch {
            throw runError(name, reason(error))
        }
    }

    /// Runs the graph once.
    ///
    /// - Parameter cancelled: asked before the run, and again where the run was interrupted: a run that nobody
    ///   cancelled is repeated.
    /// - Throws: ``Cancelled``, ``OmniDraftError/bundle(_:)`` `run`.
    func run(_ binding: any EngineBinding, cancelled: () -> Bool) throws {
        while true {
            if cancelled() { throw Cancelled() }
            do {
                try graph.run(binding, stop)
                return
            } catch {
                if !wasInterrupted() { throw runError(name, reason(error)) }
            }
        }
    }

    /// Ends the run that is going on, or else the next one, within one operator; from any thread.
    func interrupt() {
        wasAsked.with {
            $0 = true
            stop.setTerminate(true)
        }
    }

    /// Whether the last run was asked to end; the next run is not.
    private func wasInterrupted() -> Bool {
        wasAsked.with { asked in
            defer { asked = false }
            stop.setTerminate(false)
            return asked
        }
    }
}

/// The refusal of a graph that the engine cannot run, or cannot run any more.
func runError(_ name: String, _ why: String) -> OmniDraftError {
    bundleError("run", "the engine cannot run \(name) (\(why))")
}
