// Find the model of a bundle that an adapter belongs to, and the tensors to feed its graph.

private let remedy = "use the bundle that it was made for, or convert or train it again"

/// A model of a bundle.
enum Role: String, Sendable, CaseIterable {
    case target, drafter
}

/// An adapter, or none, and the tensors to feed the graph of the model.
struct Fitted: Sendable {
    var adapter: Adapter?
    /// By the names of the graph's inputs.
    var tensors = ByName<FloatTensor>()

    var digest: String? { adapter?.digest }
}

/// The two models that an adapter is compared with, and what names them.
struct AdapterPlace {
    let name: String
    let drafter: ModelEntry
    let target: ModelEntry
    let draftFingerprint: String
    let targetFingerprint: String

    func entry(_ role: Role) -> ModelEntry { role == .drafter ? drafter : target }
}

/// The model that an adapter was made for, and the tensors to feed its graph.
///
/// - Parameter role: the model; nil tries both, and takes the drafter if both fit.
/// - Throws: ``OmniDraftError/adapter(_:)`` `foreign_vocabulary`, `wrong_base`, `no_sites`, ``Adapter/checkFits(_:)``.
func fit(_ adapter: Adapter, in place: AdapterPlace, as role: Role? = nil) throws -> (role: Role, fitted: Fitted) {
    try checkVocabulary("drafter", adapter.draftTokenizer, place.draftFingerprint, place.name)
    try checkVocabulary("target", adapter.targetTokenizer, place.targetFingerprint, place.name)
    let roles: [Role] = role.map { [$0] } ?? [.drafter, .target]
    guard let model = roles.first(where: { place.entry($0).fingerprint == adapter.base }) else {
        throw wrongBase(adapter, place, roles)
    }
    guard let lora = place.entry(model).lora else { throw noSites(place, model) }
    do {
        return (model, Fitted(adapter: adapter, tensors: try adapter.inputs(lora)))
    } catch OmniDraftError.adapter(let refusal) {
        let message = "the adapter does not fit the \(model.rawValue) of \(place.name): \(refusal.message)"
        throw adapterError(refusal.fault, message, remedy)
    }
}

private func checkVocabulary(_ who: String, _ ours: String, _ theirs: String, _ name: String) throws {
    if ours == theirs { return }
    let made = "the adapter was made for the \(who) tokenizer \(ours.prefix(12))"
    let message = "\(made) and \(name) has \(theirs.prefix(12))"
    throw adapterError("foreign_vocabulary", message, "use it with the pair of models that it was made for")
}

private func wrongBase(_ adapter: Adapter, _ place: AdapterPlace, _ roles: [Role]) -> OmniDraftError {
    let has = roles.map { "\($0.rawValue) \((place.entry($0).fingerprint ?? "unknown").prefix(12))" }
    let message =
        "the adapter was made on the weights \(adapter.base.prefix(12)) and \(place.name) has "
        + has.joined(separator: ", ")
    return adapterError("wrong_base", message, remedy)
}

private func noSites(_ place: AdapterPlace, _ role: Role) -> OmniDraftError {
    let remedy = role == .drafter ? "with lora_drafter = true" : "with lora_target = true"
    let message = "the \(role.rawValue) of \(place.name) takes no adapters"
    return adapterError("no_sites", message, "export it again \(remedy)")
}

/// The tensors to feed a model without an adapter.
func unfitted(_ entry: ModelEntry) -> Fitted { Fitted(adapter: nil, tensors: entry.lora.map(noAdapter) ?? ByName()) }
