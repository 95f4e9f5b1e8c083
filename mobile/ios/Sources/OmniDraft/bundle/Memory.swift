import Foundation

// The memory that a generation needs, computed before anything is loaded (spec/08-phones.md, Memory): resident bytes at the
// peak, by factors that were measured with onnxruntime 1.31 on Linux.

private let base = 72 << 20  // the runtime, onnxruntime with its first session
private let packedFactor = 1.5  // resident bytes per byte of a graph with weights inside: most have a packed copy
private let mappedFactor = 1.02  // per byte of weights beside the graph, mapped while they are packed one by one
private let tokenizerFactor = 22  // resident bytes per byte of tokenizer.json; a compiled tokenizer is mapped
private let cacheEntry = 64  // bytes of a cached n-gram
private let rows = 13  // rows of logits of the longest usual verification
private let activations = 30.0  // times [chunk, hidden] float32, for a pass over a chunk of the prompt
private let headroom = 0.05  // of the need: other programs may take memory meanwhile
private let megabyte = 1_000_000

/// Bytes at the peak, by use.
struct MemoryNeed: Sendable {
    /// The runtime and onnxruntime.
    let base: Int
    /// Weights, as onnxruntime keeps them.
    let target: Int
    /// The same.
    let drafter: Int
    /// The KV buffers at their full length; a short text touches less of them.
    let kv: Int
    /// Tokenizers, vocabulary map and, with the drafter, an n-gram cache that holds every n-gram.
    let vocabulary: Int
    /// Activations of the longest pass.
    let work: Int

    var total: Int { cappedSum([base, target, drafter, kv, vocabulary, work].map { min($0, mostExact) }) }
}

/// Why a generation should run without the drafter, as a sentence; nil if it need not.
///
/// - Parameters:
///   - plain: bytes without it.
///   - available: free bytes; nil if unknown.
func whyPlain(needed: Int, plain: Int, available: Int?) -> String? {
    guard let available, Double(needed) * (1 + headroom) > Double(available) else { return nil }
    return "decoding without the drafter: with it \(megabytes(needed)) MB are needed, "
        + "without it \(megabytes(plain)) MB, and \(megabytes(available)) MB are free; make room to decode with it"
}

private func megabytes(_ bytes: Int) -> Int { (min(bytes, mostExact) + megabyte / 2) / megabyte }

func memoryNeed(_ bundle: ModelBundle, drafter: Bool = true) -> MemoryNeed {
    let models = drafter ? bundle.models : [bundle.target]
    let drafts = models.count > 1
    let ngrams = drafts ? bundle.target.vocabSize : 0  // at most
    let vocabulary = models.map { tokenizer(bundle, $0) } + [size(bundle, bundle.vocabMap), cacheEntry * ngrams]
    return MemoryNeed(
        base: base,
        target: weights(bundle, bundle.target),
        drafter: drafts ? weights(bundle, bundle.drafter) : 0,
        kv: models.reduce(0) { $0 + $1.kv.bytes },
        vocabulary: cappedSum(vocabulary),
        work: models.reduce(0) { $0 + work($1) })
}

private func tokenizer(_ bundle: ModelBundle, _ entry: ModelEntry) -> Int {
    if let compiled = entry.compiledTokenizer { return size(bundle, compiled) }
    return whole(Double(tokenizerFactor) * Double(size(bundle, entry.tokenizer)))
}

/// Bytes of a file; a manifest lists every file that is asked for here.
private func size(_ bundle: ModelBundle, _ name: String) -> Int {
    guard let record = bundle.files[name] else { preconditionFailure("the manifest does not list \(name)") }
    return record.bytes
}

/// A number of bytes, at most 2^53 - 1.
private func whole(_ bytes: Double) -> Int { Int(min(max(bytes, 0), Double(mostExact))) }

private func weights(_ bundle: ModelBundle, _ entry: ModelEntry) -> Int {
    let names = bundle.files.names.filter { begins($0, with: "\(entry.graph).data") }
    let mapped = cappedSum(names.map { size(bundle, $0) })
    let packed = packedFactor * Double(size(bundle, entry.graph))
    if mapped == 0 { return whole(packed) }
    // A table stays mapped: as a whole beside the packed LM head that shares it, else a few of its pages.
    return max(0, whole(packed + mappedFactor * Double(mapped)) + table(bundle, entry, most: mapped))
}

/// Bytes of the embedding: added where the LM head reads them too, else taken off; 0 where an export recorded none.
private func table(_ bundle: ModelBundle, _ entry: ModelEntry, most: Int) -> Int {
    guard case .object(let checks)? = bundle.manifest["checks"], case .object(let tables)? = checks["tables"],
        case .object(let found)? = tables[entry.graph], case .integer(let bytes)? = found["bytes"],
        bytes >= 0 && bytes <= Int64(most), let shared = found["shared"]
    else { return 0 }
    return shared == .bool(true) ? Int(bytes) : -Int(bytes)
}

private func work(_ entry: ModelEntry) -> Int {
    // Of a usual decoder with this number of parameters.
    let hidden = (Double(entry.parameters) / (12 * Double(entry.kv.numLayers))).squareRoot()
    return whole(4 * activations * Double(prefillChunk) * hidden + 4 * Double(rows) * Double(entry.vocabSize))
}

/// Peak resident memory of this process in bytes, with mapped files; nil where it is not counted.
func peakBytes() -> Int? {
    #if canImport(Darwin)
        var usage = rusage()
        return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : nil
    #else
        // A file of /proc tells no size. A system without it counts nothing.
        guard let status = try? OpenFile("/proc/self/status").read(1 << 16) else { return nil }
        let lines = String(decoding: status, as: UTF8.self).split(separator: "\n")
        let digits = lines.first { $0.hasPrefix("VmHWM:") }?.filter { ("0"..."9").contains($0) }
        return digits.flatMap { Int($0) }.map { $0 * 1024 }
    #endif
}
