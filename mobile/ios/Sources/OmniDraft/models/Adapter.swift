// An adapter as a value, and whether it fits the sites of a graph (spec/11-adapter.md). The scale is folded into B.

/// A [in, rank] and B [rank, out] of a site.
struct SitePair: Sendable, Equatable {
    let a: FloatTensor
    let b: FloatTensor
}

/// Learned changes of a model: low-rank additions to its products.
final class Adapter: Sendable {
    /// Fingerprint of the checkpoint that was trained.
    let base: String
    let draftTokenizer: String
    let targetTokenizer: String
    /// A and B of each site; sites may differ in rank.
    let tensors: ByName<SitePair>
    /// Time in ISO 8601, UTC.
    let created: String
    /// All tensors by the names of the graph's inputs: the sites by name, A first.
    let named: ByName<FloatTensor>
    /// SHA-256 over the base and every tensor: equal if two adapters compute the same.
    let digest: String

    /// - Throws: ``OmniDraftError/adapter(_:)`` `missing_tensor`, `extra_tensor`, `shape`, `non_finite` or `rank`.
    init(
        base: String, draftTokenizer: String, targetTokenizer: String, tensors: ByName<SitePair>, created: String
    ) throws {
        if tensors.count == 0 { throw adapterError("missing_tensor", "it has no tensors") }
        for (site, pair) in tensors.members {
            if !isSite(site) {
                throw adapterError("extra_tensor", "\(quoted(.string(site))) is not a site of a layer")
            }
            try checkPair(site, pair)
        }
        self.base = base
        self.draftTokenizer = draftTokenizer
        self.targetTokenizer = targetTokenizer
        self.tensors = tensors
        self.created = created
        named = ByName(tensors.sorted.flatMap { [(aName($0.name), $0.value.a), (bName($0.name), $0.value.b)] })
        digest = digestOf(base, named)
    }

    /// The largest rank of a site.
    var rank: Int { tensors.values.map { $0.b.shape[0] }.max() ?? 0 }

    /// Checks that a graph with these sites can take the adapter.
    ///
    /// - Throws: ``OmniDraftError/adapter(_:)`` `extra_tensor`, `shape` or `rank`.
    func checkFits(_ lora: LoraSites) throws {
        for (name, pair) in tensors.members {
            guard let site = lora.sites[name] else {
                throw adapterError("extra_tensor", "the model has no site \(name) for it")
            }
            let (inputs, rank, outputs) = (pair.a.shape[0], pair.a.shape[1], pair.b.shape[1])
            if inputs != site.inputs || outputs != site.outputs {
                let own = "from \(inputs) to \(outputs) values"
                throw adapterError(
                    "shape", "\(name) goes \(own) and the model's from \(site.inputs) to \(site.outputs)")
            }
            if let most = lora.rankOf(name), rank > most {
                throw adapterError("rank", "\(name) has rank \(rank) and the model's graph takes \(most) at most")
            }
        }
    }

    /// The tensors to feed a graph, by input name; a fixed rank is filled up with zeros.
    ///
    /// - Throws: ``OmniDraftError/adapter(_:)``: see ``checkFits(_:)``.
    func inputs(_ lora: LoraSites) throws -> ByName<FloatTensor> {
        try checkFits(lora)
        var fed = noAdapter(lora)
        for (site, pair) in tensors.members {
            let rank = lora.rankOf(site) ?? pair.a.shape[1]
            fed[aName(site)] = widened(pair.a, pair.a.shape[0], rank)
            fed[bName(site)] = widened(pair.b, rank, pair.b.shape[1])
        }
        return fed
    }
}

func adapterError(_ fault: String, _ message: String, _ remedy: String = "") -> OmniDraftError {
    .adapter(Refusal(fault: fault, message: message, remedy: remedy))
}

/// The tensors to feed a graph without an adapter: zeros if the rank is fixed, else none.
func noAdapter(_ lora: LoraSites) -> ByName<FloatTensor> {
    var tensors = ByName<FloatTensor>()
    for (name, site) in lora.sites.members {
        guard let rank = lora.rankOf(name) else { continue }
        tensors[aName(name)] = FloatTensor(zeros: [site.inputs, rank])
        tensors[bName(name)] = FloatTensor(zeros: [rank, site.outputs])
    }
    return tensors
}

/// A matrix at the upper left of a matrix of zeros.
private func widened(_ tensor: FloatTensor, _ rows: Int, _ columns: Int) -> FloatTensor {
    if tensor.shape == [rows, columns] { return tensor }
    var wide = FloatTensor(zeros: [rows, columns])
    let width = tensor.shape[1]
    for row in 0..<tensor.shape[0] {
        wide.values.replaceSubrange(
            row * columns..<row * columns + width, with: tensor.values[row * width..<(row + 1) * width])
    }
    return wide
}

/// Whether a name is `layers.` NUMBER `.` PRODUCT: a number of at most six digits, and 1 to 32 of `a-z_`.
func isSite(_ name: String) -> Bool {
    let parts = name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0].elementsEqual("layers".utf8) else { return false }
    let (number, product) = (Array(parts[1]), Array(parts[2]))
    let isNumber =
        (1...6).contains(number.count) && number.allSatisfy { (0x30...0x39).contains($0) }
        && (number.count == 1 || number[0] != 0x30)
    let isLetter: (UInt8) -> Bool = { (0x61...0x7a).contains($0) }
    let isProduct =
        (1...32).contains(product.count) && isLetter(product[0])
        && product.allSatisfy { isLetter($0) || $0 == UInt8(ascii: "_") }
    return isNumber && isProduct
}

private func checkPair(_ site: String, _ pair: SitePair) throws {
    for (name, tensor) in [(aName(site), pair.a), (bName(site), pair.b)] {
        if tensor.shape.count != 2 || tensor.shape.contains(0) {
            throw adapterError("shape", "\(name) has shape \(tensor.shape), not two sizes above 0")
        }
        if !tensor.values.allSatisfy(\.isFinite) {
            throw adapterError("non_finite", "\(name) holds a value that is not finite")
        }
    }
    let rank = pair.a.shape[1]
    if rank != pair.b.shape[0] {
        throw adapterError("shape", "\(site) has rank \(rank) in A and \(pair.b.shape[0]) in B")
    }
    if rank > BundleLimits.maxRank {
        throw adapterError("rank", "\(site) has rank \(rank), more than \(BundleLimits.maxRank)")
    }
}

private func digestOf(_ base: String, _ named: ByName<FloatTensor>) -> String {
    var digest = Sha256()
    func add(_ bytes: [UInt8]) { bytes.withUnsafeBytes { digest.update($0) } }
    add(Array(base.utf8))
    for (name, tensor) in named.members {
        let sizes = tensor.shape.map { "\($0)\u{0}" }.joined()
        add(Array("\u{0}\(name)\u{0}\(sizes)".utf8))
        add(littleEndian(tensor.values))
    }
    return hexOf(digest.finish())
}

func littleEndian(_ values: [Float]) -> [UInt8] {
    values.map(\.bitPattern.littleEndian).withUnsafeBytes { Array($0) }
}
