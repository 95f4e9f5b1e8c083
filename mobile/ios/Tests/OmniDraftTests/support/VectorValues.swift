@testable import OmniDraft

// Values of vectors as those of the runtime.

func vectorMap(_ name: String) throws -> VocabMap {
    let content = try jsonOf("maps/\(name).json").object
    return VocabMap(
        targetBytes: Ragged(rows: content["target_bytes"]!.array.map { $0.hex.map(Int32.init) }),
        direct: content["direct"]!.int32s,
        spellings: Ragged(rows: content["spellings"]!.array.map(\.int32s)),
        expansions: Ragged(rows: content["expansions"]!.array.map(\.int32s)),
        leaves: content["leaves"]!.int32s,
        draftAllowed: content["draft_allowed"]!.array.map { $0 == .bool(true) || $0 == .integer(1) },
        draftFingerprint: content["draft_fingerprint"]!.string,
        targetFingerprint: content["target_fingerprint"]!.string)
}

/// The trie of a map with some n-grams active, by their target ids.
func trieWith(_ map: VocabMap, _ active: [Int32]) -> ActiveTrie {
    let trie = ActiveTrie(map)
    trie.activateAll(active.map { Int(map.leafOf[Int($0)]) })
    return trie
}

/// The sampling of a vector; what it does not say changes nothing.
func samplingOf(_ settings: JsonObject) throws -> SamplingConfig {
    let known = ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"]
    try same("unknown settings", settings.names.filter { !known.contains($0) }, [])
    return try SamplingConfig(
        temperature: settings["temperature"]?.num ?? 0, topK: settings["top_k"]?.int ?? 0,
        topP: settings["top_p"]?.num ?? 1, minP: settings["min_p"]?.num ?? 0,
        repetitionPenalty: settings["repetition_penalty"]?.num ?? 1)
}

func costsOf(_ costs: JsonObject) -> Costs {
    Costs(
        target: costs["target"]!.nums, draft: costs["draft"]!.num, host: costs["host"]!.num,
        acceptance: costs["acceptance"]!.num)
}

/// A cache with the active n-grams of a vector, which may have less room for them or be prefilled.
func cacheOf(_ given: JsonObject) throws -> NgramCache {
    let capacity = given["capacity"]?.optional?.int ?? Defaults.cacheCapacity
    let cache = try NgramCache(vectorMap(given["map"]!.string), capacity: capacity)
    for target in given["active"]!.int32s { try same("the n-gram of \(target)", cache.insert(target), true) }
    if given["prefilled"]?.bool == true { _ = cache.prefill() }
    return cache
}

func adapterEntry(_ role: String, _ given: JsonObject) -> ModelEntry {
    let model = given[role]!.object
    return modelEntry(
        role, vocabSize: 16, fingerprint: model["fingerprint"]?.optional?.string,
        lora: model["lora"]?.optional.map { loraSites($0.object) })
}

func loraSites(_ lora: JsonObject) -> LoraSites {
    LoraSites(
        rank: lora["rank"]?.optional?.int,
        sites: ByName(lora["sites"]!.object.members.map { ($0.name, siteOf($0.value.object)) }))
}

private func siteOf(_ given: JsonObject) -> Site {
    let parts = given["parts"]!.array.map { Site.Part(name: $0.array[0].string, width: $0.array[1].int) }
    return Site(inputs: given["inputs"]!.int, parts: parts)
}
