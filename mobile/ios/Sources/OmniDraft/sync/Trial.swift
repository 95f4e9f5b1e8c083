// Compare an offered adapter with the one in use on the device's recent traces (spec/15-sync.md, The adapter
// comparison).

/// Compares the adapter in use (nil for none) with the offered one.
typealias Trial = (_ current: Adapter?, _ offered: Adapter) throws -> AdapterComparison

/// A trial on the traces in a directory. Records of the target with an adapter are left out: they have the
/// distributions of another target.
///
/// - Parameter withModel: runs the comparison with a model of the drafter that has an empty context.
func trialOn(
    _ traces: String, place: AdapterPlace, map: VocabMap,
    withModel: @escaping ((any SessionModel) throws -> AdapterComparison) throws -> AdapterComparison
) -> Trial {
    { current, offered in
        let aligner = TraceAligner(
            aligner: Aligner(trie: fullTrie(map), maxLength: place.drafter.kv.maxLength),
            start: place.drafter.bosId.map { [Int32($0)] } ?? [])
        let recent = try recentOf(traces, Vocabularies(map))
        var responses: [Aligned] = []
        let source: TraceSource = { take in try recent.forEach(take) }
        try fromTraces(source, aligner: aligner) { responses.append($0) }
        let (ours, theirs) = (try tensors(current, place), try tensors(offered, place))
        let read = responses
        return try withModel { try compare($0, read, current: ours, offered: theirs) }
    }
}

private func recentOf(_ traces: String, _ vocabularies: Vocabularies) throws -> [Traced] {
    var recent: [Traced] = []
    try readTraces([traces], vocabularies) { traced in
        if traced.start.targetAdapter != nil { return }
        if recent.count == Defaults.syncRecentRecords { recent.removeFirst() }
        recent.append(traced)
    }
    return recent
}

private func tensors(_ adapter: Adapter?, _ place: AdapterPlace) throws -> [(name: String, tensor: Tensor)] {
    let fitted = try adapter.map { try fit($0, in: place, as: .drafter).fitted } ?? unfitted(place.drafter)
    return fitted.tensors.members.map { (name: $0.name, tensor: tensorOf($0.value)) }
}
