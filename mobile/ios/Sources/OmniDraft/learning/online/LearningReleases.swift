import Foundation

// Releases that were learned elsewhere, and what this device shares (spec/15-sync.md), as an app sees them.

private let taken: [PullOutcome] = [.switched, .newest]
private let deviceKey = "device.key"

extension LearningController {
    func releaseName() throws -> String { "\(try channelOf(session.loaded.adapterPlace).id)/release" }

    func pull(_ release: [UInt8]) async throws -> PullOutcome {
        let isCancelled = Guarded(false)
        return try await withTaskCancellationHandler {
            try await worker.run { try self.take(release) { isCancelled.with { $0 } } }
        } onCancel: {
            isCancelled.with { $0 = true }
        }
    }

    func push(_ parts: Set<PushPart>) async throws -> PushFile { try await worker.run { try self.written(parts) } }

    private func take(_ release: [UInt8], _ isCancelled: @escaping () -> Bool) throws -> PullOutcome {
        guard let publicKey else {
            throw settingError(
                "a release is checked with the public key of its publisher, and none was given",
                "give one in the options of the bundle")
        }
        let signed = try readSigned(release, .release, publicKey: readPublicKey(publicKey))
        let directory = try directory()
        let outcome = try directory.claimed {
            let own = try learned()?.used
            let cache = options.cache?.path
            if let cache, isDirectory(split(cache).directory) { try session.saveCache(cache) }
            let outcome = try pulled(signed, device(own, isCancelled))
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
            trial: try trial(isCancelled), own: own, cache: options.cache?.path)
    }

    /// A comparison on what was recorded; nil where nothing was, and then a release is used without one.
    private func trial(_ isCancelled: @escaping () -> Bool) throws -> Trial? {
        guard let drafter = session.loaded.drafter, try isRecorded() else { return nil }
        return trialOn(try traces(), place: session.loaded.adapterPlace, map: session.vocabMap) { use in
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

    private func written(_ parts: Set<PushPart>) throws -> PushFile {
        let vocabularies = Vocabularies(session.vocabMap)
        let contents = PushContents(
            adapter: parts.contains(.adapter) ? try learned()?.used.map { try encodeAdapter($0) } : nil,
            cache: parts.contains(.cache) ? try encodeCache(session.turn { session.cache.table() }) : nil,
            traces: parts.contains(.traces) ? try segmentsIn(traces(), vocabularies) : [],
            accepted: try accepted(vocabularies))
        let channel = try channelOf(session.loaded.adapterPlace)
        let directory = try directory()
        let seed = try directory.claimed { try deviceSeed(joined(directory.place, deviceKey)) }
        let (key, data) = try writePush(channel, contents, seed: seed)
        return PushFile(name: "\(channel.id)/\(key).push", data: data)
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
private func pulled(_ signed: Signed, _ device: Device) throws -> PullOutcome {
    do {
        return try pull(signed, device).outcome
    } catch is Cancelled {
        throw CancellationError()
    }
}
