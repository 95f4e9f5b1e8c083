@testable import OmniDraft

// Models of vectors with the fields that concern adapters.

/// The model of a role.
func adapterEntry(_ role: String, _ given: JsonObject) -> ModelEntry {
    let model = given[role]!.object
    return modelEntry(
        role, vocabSize: 16, fingerprint: model["fingerprint"]?.optional?.string,
        lora: model["lora"]?.optional.map { loraSites($0.object) })
}

private func loraSites(_ lora: JsonObject) -> LoraSites {
    let sites = lora["sites"]!.object.members.map { member -> (String, Site) in
        let site = member.value.object
        let parts = site["parts"]!.array.map { Site.Part(name: $0.array[0].string, width: $0.array[1].int) }
        return (member.name, Site(inputs: site["inputs"]!.int, parts: parts))
    }
    return LoraSites(rank: lora["rank"]?.optional?.int, sites: ByName(sites))
}
