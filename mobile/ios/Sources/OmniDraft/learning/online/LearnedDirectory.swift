import Foundation

// The directory of what a device learned for one pair of models: the checkpoint, and the adapter in use.
//
// - `checkpoint.safetensors`: the whole state in one file, so that a reader never finds half of it;
// - `adapter.safetensors`: a copy of the adapter in use for sessions, written after the checkpoint.

private let checkpointName = "checkpoint.safetensors"
private let adapterName = "adapter.safetensors"
private let learnerPrefix = "learner/"
private let goodPrefix = "good/"
private let usedName = "used"
private let baseName = "base"

/// The state of an adaptation between two steps.
struct LearningCheckpoint {
    let progress: AdaptationProgress
    let learner: Arrays
    /// The learner's state at the last adapter that was found good; empty where that is ``learner``.
    let good: Arrays
    /// The learned adapter in use; nil for version 0.
    let used: Adapter?
    /// The adapter that learning began with, which is version 0; nil for the drafter as it is.
    let base: Adapter?

    var adapter: Adapter? { used ?? base }
}

/// The directory of what a device learned for one pair of models.
struct LearnedDirectory {
    let place: String
    private let checkpoint: String
    private let adapter: String
    private let format = StateFormat(
        name: "omnidraft.idle_learning", version: "1", task: "learning",
        remedy: "wipe what was learned to start over")

    init(_ place: String) {
        self.place = place
        checkpoint = joined(place, checkpointName)
        adapter = joined(place, adapterName)
    }

    /// Whether something was learned or is being learned here.
    var isBegun: Bool { exists(checkpoint) }

    /// Run `work` while no one else learns here; the directory is made if it is absent.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)``: the directory is in use, or cannot be written.
    func claimed<T>(_ work: () throws -> T) throws -> T {
        let claim = try claimedPlace()
        defer { claim.close() }
        return try work()
    }

    /// Replace the checkpoint. A kill at any moment leaves the old file or the new one, whole.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)`` or ``OmniDraftError/adapter(_:)``: it cannot be written.
    func write(_ state: LearningCheckpoint, _ of: AdaptationOf) throws {
        var arrays = Arrays()
        for (name, array) in state.learner.members { arrays[learnerPrefix + name] = array }
        for (name, array) in state.good.members { arrays[goodPrefix + name] = array }
        if let used = state.used { arrays[usedName] = TypedArray(try encodeAdapter(used)) }
        if let base = state.base { arrays[baseName] = TypedArray(try encodeAdapter(base)) }
        let metadata: JsonObject = ["of": .object(of.json), "progress": .object(state.progress.json)]
        try format.write(checkpoint, arrays, metadata)
        if let used = state.used {
            try writeAdapter(adapter, used)
        } else {
            try delete(adapter)
        }
    }

    /// The checkpoint; nil where there is none.
    ///
    /// - Parameter of: what the state must belong to.
    /// - Throws: ``OmniDraftError/setting(_:)``: it cannot be read, or belongs to something else.
    func read(_ of: AdaptationOf) throws -> LearningCheckpoint? {
        if !isBegun { return nil }
        let (arrays, metadata) = try format.read(checkpoint)
        let progress = try progressIn(metadata, of)
        let used = try adapterIn(arrays, usedName)
        if (used == nil) != (progress.version == 0) {
            throw format.refusal(checkpoint, "has another adapter in use")
        }
        return LearningCheckpoint(
            progress: progress, learner: below(arrays, learnerPrefix), good: below(arrays, goodPrefix), used: used,
            base: try adapterIn(arrays, baseName))
    }

    /// Delete all that was learned; the caller has claimed the directory.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)``: a file cannot be deleted.
    func wipe() throws {
        for file in [checkpoint, adapter] {
            try delete(file)
            removeLeftovers(file)
        }
    }

    private func progressIn(_ metadata: JsonObject, _ of: AdaptationOf) throws -> AdaptationProgress {
        do {
            if let differing = try of.differing(metadata["of"] ?? .null) {
                throw format.refusal(checkpoint, "was learned with \(differing)")
            }
            return try AdaptationProgress(json: metadata["progress"] ?? .null)
        } catch let error as ValueError {
            throw format.refusal(checkpoint, "has no readable progress (\(error.message))")
        }
    }

    private func adapterIn(_ arrays: Arrays, _ name: String) throws -> Adapter? {
        guard let array = arrays[name] else { return nil }
        guard case .bytes(let bytes) = array.values else {
            throw format.refusal(checkpoint, "has no readable adapter")
        }
        do {
            return try decodeAdapter(Bytes(bytes))
        } catch OmniDraftError.adapter(let refusal) {
            throw format.refusal(checkpoint, "has no readable adapter (\(refusal.message))")
        }
    }

    private func claimedPlace() throws -> Claim {
        do {
            try makeDirectories(split(place).directory)
            return try Claim(place)
        } catch is ClaimError {
            throw settingError("\(place) is in use by another learner", "wait for it, or give another place")
        } catch let error as FileError {
            throw settingError("nothing can be learned in \(place) (\(error.message))", "choose another place")
        }
    }

    private func delete(_ file: String) throws {
        if unlink(file) != 0 && errno != ENOENT {
            throw settingError("\(file) cannot be deleted (\(systemError(errno).message))", "check its permissions")
        }
    }
}

/// The arrays whose names have a prefix, by the rest of their names.
private func below(_ arrays: Arrays, _ prefix: String) -> Arrays {
    Arrays(arrays.members.filter { begins($0.name, with: prefix) }.map { (without(prefix, of: $0.name), $0.value) })
}
