import Foundation

// Releases that were learned elsewhere, and what this device shares (spec/15-sync.md), as an app sees them.

private let taken: [PullOutcome] = [.switched, .newest]

extension LearningController {
    func pull(_ source: any ReleaseSource) async throws -> PullOutcome {
        let (store, isCancelled) = (Store(source), Guarded(false))
        return try await withTaskCancellationHandler {
            try await worker.run { try self.take(store) { isCancelled.with { $0 } } }
        } onCancel: {
            isCancelled.with { $0 = true }
            store.cancel()
        }
    }

    func writePush(_ folder: URL, device: String, parts: Set<PushPart>) async throws -> [URL] {
        try await worker.run {
            try self.push(folder.path, device, parts).map { URL(fileURLWithPath: $0, isDirectory: false) }
        }
    }

    private func take(_ store: Store, _ isCancelled: @escaping () -> Bool) throws -> PullOutcome {
        let directory = try directory()
        let outcome = try directory.claimed {
            let own = try learned()?.used
            let cache = options.cache?.path
            if let cache, isDirectory(split(cache).directory) { try session.saveCache(cache) }
            let outcome = try pulled(store, device(own, isCancelled))
            if own != nil && taken.contains(outcome) { try directory.wipe() }
            if let cache { try takeCache(cache) }
            return outcome
        }
        try useAdapter()
        return outcome
    }

    private func device(_ own: Adapter?, _ isCancelled: @escaping () -> Bool) throws -> Device {
        Device(
            models: session.loaded.adapterPlace, vocabMap: session.vocabMap, into: try releases().place,
            publicKey: publicKey, trial: try trial(isCancelled), own: own, cache: options.cache?.path)
    }

    /// A comparison on what was recorded; nil where nothing was, and then a release is used without one.
    private func trial(_ isCancelled: @escaping () -> Bool) throws -> Trial? {
        guard let drafter = session.loaded.drafter, try isRecorded() else { return nil }
        return trialOn(try traces(), session.loaded.adapterPlace, session.vocabMap) { use in
            let model = try drafter.acquire()
            defer { drafter.release(free: false) }
            model.cancelled = isCancelled
            return try use(model)
        }
    }

    /// The session's n-grams with those of a release; the file holds both.
    private func takeCache(_ file: String) throws {
        if !exists(file) { return }
        let table = try readCacheTable(file, session.vocabMap)
        try session.turn { session.text.cache = try NgramCache(table, session.vocabMap) }
    }

    private func push(_ folder: String, _ device: String, _ parts: Set<PushPart>) throws -> [String] {
        let vocabularies = Vocabularies(session.vocabMap)
        let contents = PushContents(
            adapter: parts.contains(.adapter) ? try learned()?.used : nil,
            cache: parts.contains(.cache) ? try session.turn { session.cache.table() } : nil,
            traces: parts.contains(.traces) ? try traces() : nil,
            accepted: try accepted(vocabularies))
        let channel = try channelOf(session.loaded.adapterPlace)
        return try written(folder, device, channel, contents, vocabularies)
    }

    /// The target tokens that drafts proposed and the target accepted, in the records of the trace.
    private func accepted(_ vocabularies: Vocabularies) throws -> Int {
        if try !isRecorded() { return 0 }
        var accepted = 0
        try readTraces([traces()], vocabularies) { traced in
            for round in traced.rounds { accepted += round.tokens.count { $0.accepted } }
        }
        return accepted
    }

    private func isRecorded() throws -> Bool { namesIn(try traces()).contains { numberOf($0) != nil } }
}

/// The function `pull`, where the method of that name hides it. A pass that was cancelled cancels the task.
private func pulled(_ store: Store, _ device: Device) throws -> PullOutcome {
    do {
        return try pull(store, device).outcome
    } catch is Cancelled {
        throw CancellationError()
    }
}

/// The function `writePush`, where the method of that name hides it.
private func written(
    _ folder: String, _ device: String, _ channel: Channel, _ contents: PushContents, _ vocabularies: Vocabularies
) throws -> [String] {
    try writePush(folder, device: device, channel, contents, vocabularies)
}
