// The vector of trained parameters, and its conversion to an adapter and back (spec/14-train-step.md, The vector).

/// The largest number of trained parameters: three vectors of them are 3 GiB, which no phone gives an app. A learner
/// refuses a layout with more.
let mostParameters = 1 << 28

/// Initial parameters: A is uniform within 1 / sqrt(rows of A), B is zero, so the drafter is unchanged.
///
/// The n-th value of all A, in the order of the layout, is (2 u - 1) times the bound, with u the n-th uniform value of
/// SplitMix64, computed in float64.
func initialVector(_ layout: StepLayout, seed: UInt64) -> [Float] {
    let random = SplitMix64(seed)
    var vector = [Float](repeating: 0, count: layout.size)
    for span in layout.spans() where span.name.utf8.suffix(7).elementsEqual(".lora_a".utf8) {
        let bound = 1 / Double(span.shape.rows).squareRoot()
        for place in span.begin..<span.end { vector[place] = Float((2 * random.uniform() - 1) * bound) }
    }
    return vector
}

/// A and B of each site in the form of an adapter: parts side by side, the scale multiplied into B.
func sitesOf(_ vector: [Float], layout: StepLayout, lora: LoraSites, scale: Double) -> ByName<SitePair> {
    let places = StepPlaces(layout)
    return ByName(
        lora.sites.members.map { name, site in (name, packed(vector, site, places.of(name, site), Float(scale))) })
}

private func packed(_ vector: [Float], _ site: Site, _ parts: [PartPlace], _ scale: Float) -> SitePair {
    let ranks = parts.reduce(0) { $0 + $1.rank }
    var a = [Float](repeating: 0, count: site.inputs * ranks)
    var b = [Float](repeating: 0, count: ranks * site.outputs)
    for part in parts {
        for row in 0..<site.inputs {
            let (from, into) = (part.a + row * part.rank, row * ranks + part.row)
            for column in 0..<part.rank { a[into + column] = vector[from + column] }
        }
        for row in 0..<part.rank {
            let (from, into) = (part.b + row * part.width, (part.row + row) * site.outputs + part.column)
            for column in 0..<part.width { b[into + column] = vector[from + column] * scale }
        }
    }
    return SitePair(
        a: FloatTensor(shape: [site.inputs, ranks], values: a), b: FloatTensor(shape: [ranks, site.outputs], values: b))
}

/// The vector of an adapter that ``sitesOf(_:_:_:scale:)`` packed; sites that the adapter does not have are zero.
func vectorOf(_ adapter: Adapter, layout: StepLayout, lora: LoraSites, scale: Double) throws -> [Float] {
    try adapter.checkFits(lora)
    let places = StepPlaces(layout)
    var vector = [Float](repeating: 0, count: layout.size)
    for (name, pair) in adapter.tensors.members {
        guard let site = lora.sites[name] else { preconditionFailure("an adapter that fits has no site \(name)") }
        let parts = places.of(name, site)
        try checkPacked(name, site, parts, pair)
        unpack(&vector, site, parts, pair, Float(scale))
    }
    return vector
}

private func unpack(
    _ vector: inout [Float], _ site: Site, _ parts: [PartPlace], _ pair: SitePair, _ scale: Float
) {
    let ranks = pair.a.shape[1]
    for part in parts {
        for row in 0..<site.inputs {
            let (into, from) = (part.a + row * part.rank, row * ranks + part.row)
            for column in 0..<part.rank { vector[into + column] = pair.a.values[from + column] }
        }
        for row in 0..<part.rank {
            let (into, from) = (part.b + row * part.width, (part.row + row) * site.outputs + part.column)
            for column in 0..<part.width { vector[into + column] = pair.b.values[from + column] / scale }
        }
    }
}

private func checkPacked(_ name: String, _ site: Site, _ parts: [PartPlace], _ pair: SitePair) throws {
    let ranks = parts.reduce(0) { $0 + $1.rank }
    if pair.a.shape[1] != ranks {
        throw adapterError(
            "rank", "\(name) has rank \(pair.a.shape[1]) and the training step takes \(ranks)",
            "begin without an adapter, or export with its rank as train_rank in --config")
    }
    for part in parts {
        for row in part.row..<part.row + part.rank where hasOutside(pair.b.values, row * site.outputs, site, part) {
            let message = "\(name) mixes its parts, which no training step does"
            throw adapterError("shape", message, "begin without an adapter")
        }
    }
}

/// Whether a row of B has a value outside the columns of its part.
private func hasOutside(_ values: [Float], _ row: Int, _ site: Site, _ part: PartPlace) -> Bool {
    let columns = part.column..<part.column + part.width
    return (0..<site.outputs).contains { !columns.contains($0) && values[row + $0] != 0 }
}

/// Where a part of a site lies: `a` and `b` in the vector, `row` of its ranks and `column` of its outputs in the site.
private struct PartPlace {
    let a: Int
    let b: Int
    let row: Int
    let column: Int
    let rank: Int
    let width: Int
}

private struct StepPlaces {
    private let spans: ByName<TensorSpan>

    init(_ layout: StepLayout) { spans = ByName(layout.spans().map { ($0.name, $0) }) }

    /// The places of the parts of a site, in order. A checked layout has all of them.
    func of(_ name: String, _ site: Site) -> [PartPlace] {
        var (row, column) = (0, 0)
        return site.parts.compactMap { part in
            guard let a = spans[aName("\(name).\(part.name)")], let b = spans[bName("\(name).\(part.name)")] else {
                return nil
            }
            defer {
                row += a.shape.columns
                column += part.width
            }
            return PartPlace(
                a: a.begin, b: b.begin, row: row, column: column, rank: a.shape.columns, width: part.width)
        }
    }
}
