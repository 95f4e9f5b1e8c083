/// A graph that sessions share. It is loaded when it is first used, and freed when nobody uses it and it was asked for.
final class SharedGraph: @unchecked Sendable {
    private struct State {
        var graph: Graph?
        var users = 0
    }

    private let load: @Sendable () throws -> Graph
    private let state = Guarded(State())

    init(_ load: @escaping @Sendable () throws -> Graph) { self.load = load }

    /// A model on the graph, with a context of its own; give it back with ``release(free:)``.
    func acquire() throws -> OrtModel {
        try state.with { now in
            let loaded = try now.graph ?? load()
            now.graph = loaded
            let model = try OrtModel(loaded)
            now.users += 1
            return model
        }
    }

    /// A model is used no more; with `free` the weights are freed too, if no other session uses them.
    func release(free: Bool) {
        state.with { now in
            now.users -= 1
            if now.users == 0 && free { now.graph = nil }
        }
    }

    @discardableResult
    func ready() throws -> SharedGraph {
        try state.with { now in if now.graph == nil { now.graph = try load() } }
        return self
    }
}
