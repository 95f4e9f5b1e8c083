"""Runner of `costs`: records of costs that a device measured, when it measures, and names of processors."""

from __future__ import annotations

from typing import Any

from conformance.vectors import Vector
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.device import device_costs
from omnidraft.runtime.device.machine import Machine, cpu_of


def run_costs(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    if "cpuinfo" in given:
        assert cpu_of(given["cpuinfo"]) == expect["cpu"]
        return
    machine = Machine(**given["machine"])
    if "measure" in given:
        on = given["measured_on"]
        measured_on = None if on is None else Machine(**on)
        source = device_costs.source_of_costs(given["measure"], measured_on, machine, kept=given["kept"])
        assert source == expect["source"]
    elif "record" in given:
        read = device_costs.parse_costs(given["record"].encode(), given["seal"], machine)
        assert _fields(read) == expect["costs"]
    else:
        costs = Costs(**{**given["costs"], "target": tuple(given["costs"]["target"])})
        record = device_costs.costs_record(given["seal"], machine, costs)
        assert record.decode() == expect["record"]
        assert device_costs.costs_key(given["seal"], machine) == expect["key"]
        assert _fields(device_costs.parse_costs(record, given["seal"], machine)) == given["costs"]


def _fields(costs: Costs | None) -> dict[str, Any] | None:
    return None if costs is None else {"target": list(costs.target), "draft": costs.draft, "host": costs.host}
