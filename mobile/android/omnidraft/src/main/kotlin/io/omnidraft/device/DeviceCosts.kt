package io.omnidraft.device

/*
 * Costs in a manifest, and costs that were measured on this device and kept (spec/08-phones.md, "Costs of a
 * device"). Acceptance belongs to the pair of models and not to the device, so only a manifest has it.
 */

import io.omnidraft.decoding.Costs
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.array
import io.omnidraft.disk.at
import io.omnidraft.disk.bitsOf
import io.omnidraft.disk.dump
import io.omnidraft.disk.hexadecimal
import io.omnidraft.disk.mapping
import io.omnidraft.disk.number
import io.omnidraft.disk.parse
import io.omnidraft.disk.real

private const val KIND = "costs"
private const val FORMAT = "omnidraft.costs"
private const val VERSION = 1L
internal const val MAX_PASSES = 256
private const val MIN_SECONDS = 1e-9
private const val MAX_SECONDS = 1e9
private const val MOST_AGE = 30L * 86_400_000 // ms; the first measurement may have been of a hot or busy device

/** Which costs a caller asks for: those of this machine, those of the manifest, or a measurement in any case. */
internal enum class Measure { AUTO, NEVER, ALWAYS }

/** Where costs come from: the manifest, a record of an earlier measurement, or a measurement now. */
internal enum class CostsSource { MANIFEST, KEPT, MEASURED }

internal class DeviceCosts(
    val costs: Costs,
    val source: CostsSource,
    val forget: () -> Unit = {}, // deletes the record, so that the costs are measured when the bundle is loaded next
)

/** Measured seconds, as a manifest holds them. */
internal fun readCosts(data: Map<String, Any?>): Costs {
    val target = array(data.at("target"), MAX_PASSES).map { number(it) }.toDoubleArray()
    val (draft, host, acceptance) = listOf("draft", "host", "acceptance").map { number(data.at(it)) }
    return Costs(target, draft, host, acceptance).also { checkCosts(it) }
}

/** Check the ranges of costs that were read from a file. */
internal fun checkCosts(costs: Costs) {
    val isCounted = costs.target.size in 1..MAX_PASSES && costs.acceptance in 0.0..1.0
    val above = costs.target.all { it in MIN_SECONDS..MAX_SECONDS } && costs.draft in MIN_SECONDS..MAX_SECONDS
    if (!isCounted || !above || costs.host !in 0.0..MAX_SECONDS) {
        throw ValueError("costs of ${costs.target.size} passes, or a number outside its range")
    }
}

/** Which costs to use; `MEASURED` where they must be measured. */
internal fun sourceOfCosts(measure: Measure, measuredOn: Machine?, here: Machine, kept: Boolean): CostsSource = when {
    measure == Measure.NEVER -> CostsSource.MANIFEST
    measure == Measure.ALWAYS -> CostsSource.MEASURED
    kept -> CostsSource.KEPT
    else -> if (measuredOn == here) CostsSource.MANIFEST else CostsSource.MEASURED
}

/** The costs of this machine: the manifest's, those that were kept, or those that are measured now. */
internal fun deviceCosts(
    state: StateDirectory, // the directory of what this device remembers
    seal: String,
    costs: Costs,
    measuredOn: Machine?, // the machine that they name; null where they name none
    here: Machine,
    measure: Measure,
    timed: () -> Costs?, // measures this machine; null where it cannot
): DeviceCosts {
    fun ofDevice(found: Costs, source: CostsSource) =
        DeviceCosts(Costs(found.target, found.draft, found.host, costs.acceptance), source) {
            state.deleteRecord(KIND, costsKey(seal, here))
        }
    val kept = if (measure == Measure.AUTO) keptCosts(state, seal, here) else null
    if (kept != null) return ofDevice(kept, CostsSource.KEPT)
    if (sourceOfCosts(measure, measuredOn, here, kept = false) == CostsSource.MEASURED) {
        timed()?.let { measured ->
            keepCosts(state, seal, here, measured)
            return ofDevice(measured, CostsSource.MEASURED)
        }
    }
    return DeviceCosts(costs, CostsSource.MANIFEST)
}

/** The costs that were kept for a machine and the bundle with a seal; null where there are none. */
internal fun keptCosts(state: StateDirectory, seal: String, machine: Machine): Costs? =
    state.readRecord(KIND, costsKey(seal, machine), MOST_AGE)?.let { parseCosts(it, seal, machine) }

/** Keep costs, and return whether they were written. */
internal fun keepCosts(state: StateDirectory, seal: String, machine: Machine, costs: Costs): Boolean =
    state.writeRecord(KIND, costsKey(seal, machine), costsRecord(seal, machine, costs))

internal fun costsRecord(seal: String, machine: Machine, costs: Costs): ByteArray = dump(
    linkedMapOf(
        "format" to FORMAT,
        "version" to VERSION,
        "seal" to seal,
        "machine" to machine.asJson(),
        "target" to costs.target.map { bitsOf(it) },
        "draft" to bitsOf(costs.draft),
        "host" to bitsOf(costs.host),
    ),
)

/** The costs in a record; null where it is damaged, or is of another machine or bundle. */
internal fun parseCosts(data: ByteArray, seal: String, machine: Machine): Costs? = try {
    val value = mapping(parse(data))
    val isRecord = value.at("format") == FORMAT && value.at("version") == VERSION
    val isOurs = isRecord && hexadecimal(value.at("seal"), 64) == seal &&
        readMachine(mapping(value.at("machine"))) == machine
    if (isOurs) costsOf(value) else null
} catch (_: ValueError) {
    null // a damaged record is the same as none
}

private fun costsOf(value: Map<String, Any?>): Costs {
    val target = array(value.at("target"), MAX_PASSES).map { seconds(it) }.toDoubleArray()
    return Costs(target, seconds(value.at("draft")), seconds(value.at("host"))).also { checkCosts(it) }
}

private fun seconds(value: Any?): Double = real(value, 0.0, MAX_SECONDS)

/** The name of the record of a machine and a bundle. */
internal fun costsKey(seal: String, machine: Machine): String =
    recordKey(seal, *machine.asJson().values.map { it.toString() }.toTypedArray())
