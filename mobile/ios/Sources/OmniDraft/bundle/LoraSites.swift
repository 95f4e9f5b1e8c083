// The sites of a graph, its products that an adapter can change: y = x W + (x A) B, with A [in, rank] and B [rank, out]
// (spec/11-adapter.md).

/// The name of the graph's input for A of a site.
func aName(_ site: String) -> String { "\(site).lora_a" }

/// The name of the graph's input for B of a site.
func bName(_ site: String) -> String { "\(site).lora_b" }

/// A product that an adapter can change.
struct Site: Sendable, Equatable {
    /// A part of the output: its name and its width.
    struct Part: Sendable, Equatable {
        let name: String
        let width: Int
    }

    /// Width of its input.
    let inputs: Int
    /// Of its output, in order.
    let parts: [Part]

    var outputs: Int { parts.reduce(0) { $0 + $1.width } }
}

/// Where adapters enter a graph.
struct LoraSites: Sendable, Equatable {
    /// Of A and B for each part of a site, which must be fed; nil where any rank fits, fed or not.
    let rank: Int?
    /// By name, `layers.{i}.{product}`, in the order of the manifest.
    let sites: ByName<Site>

    /// The fixed rank of a site: parts that were trained apart lie side by side in it. Nil where any rank fits, or the
    /// graph has no such site.
    func rankOf(_ name: String) -> Int? {
        guard let rank, let site = sites[name] else { return nil }
        return rank * site.parts.count
    }
}
