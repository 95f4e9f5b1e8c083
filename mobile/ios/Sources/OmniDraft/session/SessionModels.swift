// A session's own models on a shared bundle: their contexts, and the adapters in use.

/// The drafter's model in a session, and its context.
final class SmallModel {
    let model: OrtModel
    let drafter: Drafter

    init(_ model: OrtModel, start: [Int32]) {
        self.model = model
        drafter = Drafter(model, start: start)
    }
}

func sessionError(_ message: String, _ remedy: String = "") -> OmniDraftError {
    .session(Refusal(message: message, remedy: remedy))
}

/// The target, and the drafter where one is loaded. One user runs them at a time (``turn(_:)``); the functions that say
/// so may be called from any thread.
final class SessionModels: @unchecked Sendable {
    /// Shared with other sessions.
    let loaded: LoadedBundle
    let clock: Clock = seconds
    /// Of the session's texts; used inside ``turn(_:)``.
    let grammars: TextGrammars
    /// How much the app lets the session do.
    let throttle = Throttle()
    let target: OrtModel
    private let withoutDrafter = Drafter(nil)

    private struct State {
        var isBusy = false
        var dropAsked = false
        var small: SmallModel?
        var drops = 0
        var chosen: [Role: Fitted] = [:]
        var inUse: [Role: String] = [:]
    }

    // Locked for a moment each time, never during a pass.
    private let state = Guarded(State())

    init(_ loaded: LoadedBundle) throws {
        self.loaded = loaded
        grammars = TextGrammars(loaded)
        target = try loaded.target.acquire()
        do {
            let small = try newDrafter()
            state.with { $0.small = small }
        } catch {
            loaded.target.release(free: false)
            throw error
        }
    }

    deinit {
        if state.with({ $0.small != nil }) { loaded.drafter?.release(free: false) }
        loaded.target.release(free: false)
    }

    /// The drafter and its context; one without a model where none is loaded.
    var drafter: Drafter { state.with { $0.small?.drafter } ?? withoutDrafter }
    /// Whether the drafter is loaded now.
    var hasDrafter: Bool { state.with { $0.small != nil && !$0.dropAsked } }
    /// How often the drafter was dropped; its context counts as empty after each time.
    var drops: Int { state.with { $0.drops } }
    /// The adapters that were given, by role.
    var adapters: [Role: Adapter] { state.with { $0.chosen.compactMapValues(\.adapter) } }

    /// The digest of the adapter that the last round ran with; nil for none.
    func digest(_ role: Role) -> String? { state.with { $0.inUse[role] } }

    /// Uses an adapter from the next round on; from any thread.
    ///
    /// - Parameters:
    ///   - adapter: nil takes adapters away.
    ///   - role: the model that it is of; by the fingerprint of its base when nil.
    /// - Throws: ``OmniDraftError/adapter(_:)``: it is of other models; the adapter in use stays.
    func useAdapter(_ adapter: Adapter?, _ role: Role?) throws {
        let bundle = loaded.bundle
        guard let adapter else {
            for each in role.map({ [$0] }) ?? Role.allCases {
                let fitted = unfitted(each == .target ? bundle.target : bundle.drafter)
                state.with { $0.chosen[each] = fitted }
            }
            return
        }
        let (model, fitted) = try fit(adapter, in: loaded.adapterPlace, as: role)
        state.with { $0.chosen[model] = fitted }  // the next round takes it up
    }

    /// Runs something as the one user of the models; a second user is refused, because waiting could take for ever.
    ///
    /// - Throws: ``OmniDraftError/session(_:)``: another thread is using the models.
    func turn<T>(_ work: (Bool) throws -> T) throws -> T {
        let wasBusy = state.with { now in
            defer { now.isBusy = true }
            return now.isBusy
        }
        if wasBusy {
            throw sessionError(
                "this session is in use by another thread",
                "cancel its text and wait, or give each thread its own session")
        }
        defer { end() }
        return try work(takeUp())
    }

    /// Frees the drafter: now, or at the end of the round that is running; from any thread.
    func dropDrafter() {
        let isFree = state.with { now in
            now.dropAsked = true  // also of one that is being loaded
            return !now.isBusy
        }
        if isFree { drop() }
    }

    /// Loads the drafter again, for the next generation; from any thread. Nothing happens where it is loaded.
    ///
    /// - Throws: ``OmniDraftError/session(_:)``: the bundle was opened without the drafter.
    func loadDrafter() throws {
        if loaded.drafter == nil {
            throw sessionError("the bundle was opened without its drafter", "open it again with the drafter")
        }
        let isThere = state.with { now in
            now.dropAsked = false
            return now.small != nil
        }
        if isThere { return }
        let small = try newDrafter()  // takes seconds, so nobody waits for the lock meanwhile
        let isUsed = state.with { now in
            if now.dropAsked || now.small != nil { return false }
            now.small = small
            now.inUse[.drafter] = nil
            return true
        }
        if !isUsed { loaded.drafter?.release(free: true) }
    }

    /// Ends the run of a graph that is going on, in this thread or another.
    func interrupt() {
        target.interrupt()
        state.with { $0.small }?.model.interrupt()
    }

    /// Lets `isCancelled` cancel passes inside `work`: before they begin, or when interrupted.
    func cancelledBy<T>(_ isCancelled: @escaping () -> Bool, _ work: () throws -> T) rethrows -> T {
        let models = [target] + (state.with { $0.small }.map { [$0.model] } ?? [])
        for model in models { model.cancelled = isCancelled }
        defer { for model in models { model.cancelled = { false } } }
        return try work()
    }

    private func end() {
        let isAsked = state.with { now in
            now.isBusy = false
            return now.dropAsked
        }
        if isAsked { drop() }
    }

    private func drop() {
        let dropped = state.with { now in
            guard let small = now.small else { return SmallModel?.none }
            (now.small, now.dropAsked) = (nil, false)
            now.drops += 1
            return small
        }
        if dropped != nil { loaded.drafter?.release(free: true) }
    }

    private func newDrafter() throws -> SmallModel? {
        try loaded.drafter.map { SmallModel(try $0.acquire(), start: startOf(loaded.bundle.drafter)) }
    }

    /// Gives the models the adapters of ``useAdapter(_:_:)``; their contexts are of the old weights.
    ///
    /// - Returns: whether the target has to read its context again.
    private func takeUp() throws -> Bool {
        let isChanged = try takeUp(.target, target)
        if let small = state.with({ $0.small }), try takeUp(.drafter, small.model) { small.drafter.forget() }
        return isChanged
    }

    private func takeUp(_ role: Role, _ model: OrtModel) throws -> Bool {
        let (fitted, inUse) = state.with { ($0.chosen[role], $0.inUse[role]) }
        guard let fitted, fitted.digest != inUse else { return false }
        try model.useAdapter(fitted.tensors.members.map { (name: $0.name, tensor: tensorOf($0.value)) })
        state.with { $0.inUse[role] = fitted.digest }
        return true
    }
}

func tensorOf(_ tensor: FloatTensor) -> Tensor {
    Tensor(dtype: "F32", shape: tensor.shape, data: Bytes(littleEndian(tensor.values)))
}
