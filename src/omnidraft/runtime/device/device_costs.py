"""Costs in a manifest, and costs that were measured on this device and kept: spec/08-phones.md.

Acceptance belongs to the pair of models and not to the device, so only a manifest has it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.device.machine import Machine, read_machine
from omnidraft.runtime.device.state_directory import delete_record, read_record, record_key, write_record
from omnidraft.runtime.disk.json_fields import array, hexadecimal, mapping, number, real
from omnidraft.runtime.disk.strict_json import bits_of, dump, parse

KIND = "costs"
FORMAT, VERSION = "omnidraft.costs", 1
MAX_PASSES, MIN_SECONDS, MAX_SECONDS = 256, 1e-9, 1e9
MOST_AGE = 30 * 86_400.0  # seconds; the first measurement may have been of a hot or busy device
Measure = Literal["auto", "never", "always"]
MEASURES: tuple[Measure, ...] = ("auto", "never", "always")
CostsSource = Literal["manifest", "kept", "measured"]


@dataclass(frozen=True)
class DeviceCosts:
    """The costs that a device uses.

    Attributes:
        source: the manifest, a record of an earlier measurement, or a measurement now.
        measured_on: the machine that the manifest names; None where it names none.
    """

    costs: Costs
    source: CostsSource
    machine: Machine
    measured_on: Machine | None

    @property
    def are_of_this_machine(self) -> bool:
        """Whether they were measured here, in the same places and with as many threads."""
        return self.source != "manifest" or self.measured_on == self.machine

    @property
    def origin(self) -> str:
        """Where the costs come from, as the end of a sentence."""
        if self.source != "manifest":
            return f"measured on this machine{' before, and kept' if self.source == 'kept' else ''}"
        if self.measured_on is None:
            return "measured at export, on a machine that the bundle does not name"
        here = "this machine" if self.are_of_this_machine else f"another machine ({self.measured_on})"
        return f"measured at export, on {here}"


def read_costs(data: dict[str, Any]) -> Costs:
    """Measured seconds, as a manifest holds them.

    Raises:
        KeyError, TypeError, ValueError: a field is missing, of another kind, or out of its range.
    """
    target = tuple(number(each) for each in array(data["target"], MAX_PASSES))
    costs = Costs(target, *(number(data[name]) for name in ("draft", "host", "acceptance")))
    check_costs(costs)
    return costs


def check_costs(costs: Costs) -> None:
    """Check the ranges of costs that were read from a file.

    Raises:
        ValueError: no pass or more than 256, or a number outside its range.
    """
    seconds = (*costs.target, costs.draft, costs.host)
    if not 1 <= len(costs.target) <= MAX_PASSES or not 0.0 <= costs.acceptance <= 1.0:
        raise ValueError(f"costs {costs!r:.80}")
    if min(*costs.target, costs.draft) < MIN_SECONDS or min(seconds) < 0.0 or max(seconds) > MAX_SECONDS:
        raise ValueError(f"costs {costs!r:.80}")


def source_of_costs(
    measure: Measure, measured_on: Machine | None, here: Machine, *, kept: bool
) -> Literal["manifest", "kept", "measure"]:
    """Which costs to use, or that they must be measured.

    Args:
        measured_on: the machine that the manifest's costs name; None where it names none.
        kept: whether there is a record of this machine and bundle.
    """
    if measure == "never":
        return "manifest"
    if measure == "always":
        return "measure"
    if kept:
        return "kept"
    return "manifest" if measured_on == here else "measure"


def device_costs(
    seal: str,
    costs: Costs,
    measured_on: Machine | None,
    here: Machine,
    measure: Measure,
    timed: Callable[[], Costs | None],
) -> DeviceCosts:
    """The costs of this machine: the manifest's, those that were kept, or those that are measured now.

    Args:
        measured_on: the machine that they name; None where they name none.
        timed: measures this machine; None where it cannot.
    """
    record = read_record(KIND, costs_key(seal, here), MOST_AGE) if measure == "auto" else None
    kept = None if record is None else parse_costs(record, seal, here)
    if kept is not None:
        return DeviceCosts(replace(kept, acceptance=costs.acceptance), "kept", here, measured_on)
    if source_of_costs(measure, measured_on, here, kept=False) == "measure":
        measured = timed()
        if measured is not None:
            write_record(KIND, costs_key(seal, here), costs_record(seal, here, measured))
            return DeviceCosts(replace(measured, acceptance=costs.acceptance), "measured", here, measured_on)
    return DeviceCosts(costs, "manifest", here, measured_on)


def forget_costs(seal: str, machine: Machine) -> None:
    """Delete the costs that were kept, so that they are measured when the bundle is loaded next."""
    delete_record(KIND, costs_key(seal, machine))


def costs_record(seal: str, machine: Machine, costs: Costs) -> bytes:
    """The bytes of a record."""
    return dump({
        "format": FORMAT,
        "version": VERSION,
        "seal": seal,
        "machine": machine.as_json(),
        "target": [bits_of(seconds) for seconds in costs.target],
        "draft": bits_of(costs.draft),
        "host": bits_of(costs.host),
    })  # fmt: skip


def parse_costs(data: bytes, seal: str, machine: Machine) -> Costs | None:
    """The costs in a record; None where it is damaged, or is of another machine or bundle."""
    try:
        value = mapping(parse(data))
        if value["format"] != FORMAT or value["version"] != VERSION or type(value["version"]) is not int:
            return None
        if hexadecimal(value["seal"], 64) != seal or read_machine(mapping(value["machine"])) != machine:
            return None
        target = tuple(_seconds(each) for each in array(value["target"], MAX_PASSES))
        costs = Costs(target, _seconds(value["draft"]), _seconds(value["host"]))
        check_costs(costs)
    except (KeyError, ValueError):
        return None
    return costs


def _seconds(value: object) -> float:
    return real(value, 0.0, MAX_SECONDS)


def costs_key(seal: str, machine: Machine) -> str:
    """The name of the record of a machine and a bundle."""
    return record_key(seal, *(str(value) for value in machine.as_json().values()))
