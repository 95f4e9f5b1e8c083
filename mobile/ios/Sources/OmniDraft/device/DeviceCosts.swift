// Costs in a manifest, and costs that were measured on this device and kept (spec/08-phones.md, "Costs of a device").
// Acceptance belongs to the pair of models and not to the device, so only a manifest has it.

/// Passes whose seconds are measured, at most.
let maxPasses = 256

private let kind = "costs"
private let format = "omnidraft.costs"
private let formatVersion = 1
private let minSeconds = 1e-9
private let maxSeconds = 1e9
private let mostAge = 30 * 86_400.0  // seconds; the first measurement may have been of a hot or busy device

/// Which costs a caller asks for: those of this machine, those of the manifest, or a measurement in any case.
enum Measure: String, Sendable { case auto, never, always }

/// Where costs come from: the manifest, a record of an earlier measurement, or a measurement now.
enum CostsSource: Sendable { case manifest, kept, measured }

struct DeviceCosts: Sendable {
    /// With the acceptance of the manifest.
    let costs: Costs
    let source: CostsSource
    /// Deletes the record, so that the costs are measured when the bundle is loaded next.
    var forget: @Sendable () -> Void = {}
}

/// Measured seconds, as a manifest holds them.
///
/// - Throws: ``ValueError``: a field is missing, of another kind, or out of its range.
func readCosts(_ data: JsonObject) throws -> Costs {
    let target = try array(data.at("target"), most: maxPasses).map { try number($0) }
    let costs = Costs(
        target: target, draft: try number(data.at("draft")), host: try number(data.at("host")),
        acceptance: try number(data.at("acceptance")))
    try checkCosts(costs)
    return costs
}

/// Check the ranges of costs that were read from a file.
///
/// - Throws: ``ValueError``: no pass or more than 256, or a number outside its range.
func checkCosts(_ costs: Costs) throws {
    let isCounted = (1...maxPasses).contains(costs.target.count) && (0.0...1.0).contains(costs.acceptance)
    let isAbove = (costs.target + [costs.draft]).allSatisfy { $0 >= minSeconds && $0 <= maxSeconds }
    if !isCounted || !isAbove || !(0.0...maxSeconds).contains(costs.host) {
        throw ValueError("costs of \(costs.target.count) passes, or a number outside its range")
    }
}

/// Which costs to use; `.measured` where they must be measured.
///
/// - Parameters:
///   - measure: what the caller asked for.
///   - measuredOn: the machine that the manifest's costs name; nil where it names none.
func sourceOfCosts(_ measure: Measure, measuredOn: Machine?, here: Machine, kept: Bool) -> CostsSource {
    switch measure {
    case .never: return .manifest
    case .always: return .measured
    case .auto: return kept ? .kept : measuredOn == here ? .manifest : .measured
    }
}

/// The costs of this machine: the manifest's, those that were kept, or those that are measured now.
///
/// - Parameters:
///   - measuredOn: the machine that they name; nil where they name none.
///   - measure: what the caller asked for.
///   - timed: measures this machine; nil where it cannot.
func deviceCosts(
    _ state: StateDirectory, seal: String, costs: Costs, measuredOn: Machine?, here: Machine, measure: Measure,
    timed: () throws -> Costs?
) rethrows -> DeviceCosts {
    func ofDevice(_ found: Costs, _ source: CostsSource) -> DeviceCosts {
        let own = Costs(target: found.target, draft: found.draft, host: found.host, acceptance: costs.acceptance)
        return DeviceCosts(costs: own, source: source) { state.deleteRecord(kind, costsKey(seal: seal, here)) }
    }
    if measure == .auto, let kept = keptCosts(state, seal: seal, here) { return ofDevice(kept, .kept) }
    let source = sourceOfCosts(measure, measuredOn: measuredOn, here: here, kept: false)
    if source == .measured, let measured = try timed() {
        keepCosts(state, seal: seal, here, measured)
        return ofDevice(measured, .measured)
    }
    return DeviceCosts(costs: costs, source: .manifest)
}

/// The costs that were kept for a machine and the bundle with a seal; nil where there are none.
func keptCosts(_ state: StateDirectory, seal: String, _ machine: Machine) -> Costs? {
    let record = state.readRecord(kind, costsKey(seal: seal, machine), mostAge: mostAge)
    return record.flatMap { parseCosts($0, seal: seal, machine) }
}

/// Keep costs, and return whether they were written.
@discardableResult
func keepCosts(_ state: StateDirectory, seal: String, _ machine: Machine, _ costs: Costs) -> Bool {
    guard let record = try? costsRecord(seal: seal, machine, costs) else { return false }
    return state.writeRecord(kind, costsKey(seal: seal, machine), record)
}

func costsRecord(seal: String, _ machine: Machine, _ costs: Costs) throws -> [UInt8] {
    try dumpJson(
        [
            "format": .string(format), "version": .int(formatVersion), "seal": .string(seal),
            "machine": .object(machine.asJson), "target": .array(costs.target.map { .string(bitsOf($0)) }),
            "draft": .string(bitsOf(costs.draft)), "host": .string(bitsOf(costs.host)),
        ])
}

/// The costs in a record; nil where it is damaged, or is of another machine or bundle.
func parseCosts(_ data: [UInt8], seal: String, _ machine: Machine) -> Costs? {
    do {
        let value = try mapping(parseJson(data))
        let isRecord = try value.at("format") == .string(format) && value.at("version") == .int(formatVersion)
        if try !isRecord || !isSame(hexadecimal(value.at("seal"), 64), seal) { return nil }
        if try readMachine(mapping(value.at("machine"))) != machine { return nil }
        return try costsOf(value)
    } catch {
        return nil  // a damaged record is the same as none
    }
}

private func costsOf(_ value: JsonObject) throws -> Costs {
    let target = try array(value.at("target"), most: maxPasses).map { try seconds($0) }
    let costs = Costs(target: target, draft: try seconds(value.at("draft")), host: try seconds(value.at("host")))
    try checkCosts(costs)
    return costs
}

private func seconds(_ value: JsonValue) throws -> Double { try real(value, in: 0...maxSeconds) }

/// The name of the record of a machine and a bundle.
func costsKey(seal: String, _ machine: Machine) -> String { recordKey([seal] + machine.texts) }
