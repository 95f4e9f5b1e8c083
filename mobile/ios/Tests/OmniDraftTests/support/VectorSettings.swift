@testable import OmniDraft

// Settings of the vectors as the runtime's own values.

/// The sampling of a vector; what it does not say changes nothing.
func samplingOf(_ settings: JsonObject) throws -> SamplingConfig {
    let known = ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"]
    try same("unknown settings", settings.names.filter { !known.contains($0) }, [])
    return try SamplingConfig(
        temperature: settings["temperature"]?.num ?? 0, topK: settings["top_k"]?.int ?? 0,
        topP: settings["top_p"]?.num ?? 1, minP: settings["min_p"]?.num ?? 0,
        repetitionPenalty: settings["repetition_penalty"]?.num ?? 1)
}

/// The costs of a vector.
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
