"""Vectors of `costs`: records of measured costs, when a device measures, and the name of a processor."""

import json
from collections.abc import Iterator
from typing import Any

from vectorlib.reference.files import device_costs as rule
from vectorlib.reference.json_text import bits
from vectorlib.writer import VectorWriter, vector

SEAL = "5e" * 32
PHONE: dict[str, Any] = {
    "cpu": "0x41 0xd05, 0x41 0xd0a", "cores": 8, "system": "Android aarch64", "onnxruntime": "1.23.0",
    "threads": 4, "target_on": "qnn:soc_model=57", "drafter_on": "cpu",
}  # fmt: skip
COSTS: dict[str, Any] = {"target": [0.021, 0.0225, 0.03], "draft": 0.0015, "host": 0.0}
# Each field of a machine with another value: costs of another machine are not used.
OTHER = {
    "cpu": "0x41 0xd05", "cores": 4, "system": "Linux aarch64", "onnxruntime": "1.24.0", "threads": 2,
    "target_on": "cpu", "drafter_on": "npu",
}  # fmt: skip
CORES = ("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n"
         "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd0a\n\n"
         "processor\t: 2\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n")  # fmt: skip


def write(writer: VectorWriter) -> None:
    writer.vectors("costs", "records", list(_records()))
    writer.vectors("costs", "refused", list(_refused()))
    writer.vectors("costs", "sources", list(_sources()))
    writer.vectors("costs", "processors", list(_processors()))


def _records() -> Iterator[dict[str, Any]]:
    most = {**COSTS, "target": [1e9] * 256, "draft": 1e-9, "host": 1e9}
    spelled = {**PHONE, "cpu": 'Intel(R) "é\\ä" \U0001f9d1 @ 3.40GHz', "cores": 1, "threads": 65_536}
    for name, why, machine, costs in (
        ("usual", "a record of three passes", PHONE, COSTS),
        ("extremes", "the most passes, and the largest and smallest seconds", PHONE, most),
        ("text", "names are UTF-8, with the escapes that JSON needs", spelled, {**COSTS, "target": [0.5]}),
    ):
        given = {"seal": SEAL, "machine": machine, "costs": costs}
        expect = {"key": rule.key(SEAL, machine), "record": rule.record(SEAL, machine, costs)}
        yield vector(name, why, given, expect)


def _refused() -> Iterator[dict[str, Any]]:
    """Records that are the same as none: of another machine or bundle, or with a fault."""
    good = json.loads(rule.record(SEAL, PHONE, COSTS))

    def case(name: str, why: str, text: str) -> dict[str, Any]:
        return vector(name, why, {"seal": SEAL, "machine": PHONE, "record": text}, {"costs": None})

    for field, value in OTHER.items():
        yield case(
            f"other_{field}", "costs of another machine", rule.record(SEAL, {**PHONE, field: value}, COSTS)
        )
    changes: dict[str, list[Any]] = {
        "format": ["omnidraft.cost", None], "version": [0, 2, 1.0, True, "1"], "seal": ["5f" * 32, "5E" * 32],
        "machine": [None, []],
        "target": [[], [bits(0.0)], [bits(9.999999999999999e-10)], [bits(-1.0)], [bits(2e9)], [0.5],
                   ["7ff0" + "0" * 12], [bits(1.0)] * 257],
        "draft": [bits(0.0), bits(5e-324), bits(2e9), bits(float("nan")), 0.5],
        "host": [bits(-1.0), bits(2e9), None],
    }  # fmt: skip
    for field, values in changes.items():
        without = json.dumps({name: value for name, value in good.items() if name != field})
        yield case(f"missing_{field}", "the field is missing", without)
        for i, value in enumerate(values):
            changed = json.dumps({**good, field: value})
            yield case(f"{field}_{i}", f"{value!r:.30} is not in its range", changed)
    whole = json.dumps(good)
    yield case("cut", "the end is missing", whole[:-1])
    yield case("twice", "a name twice", whole[:-1] + ',"host":"0000000000000000"}')
    yield case("empty", "an empty file", "")
    yield case("array", "JSON that is not an object", f"[{whole}]")


def _sources() -> Iterator[dict[str, Any]]:
    machines = {"same": PHONE, "unnamed": None, **{f"other_{k}": {**PHONE, k: v} for k, v in OTHER.items()}}
    cases = [("auto", name, kept) for name in machines for kept in (False, True)]
    cases += [(measure, name, True) for measure in ("never", "always") for name in ("same", "unnamed")]
    for measure, name, kept in cases:
        source = rule.source(measure, PHONE, machines[name], kept)
        given = {"measure": measure, "machine": PHONE, "measured_on": machines[name], "kept": kept}
        why = f"the costs of the manifest are of a machine that is {name}"
        yield vector(f"{measure}_{name}_{'kept' if kept else 'none'}", why, given, {"source": source})


def _processors() -> Iterator[dict[str, Any]]:
    for name, why, text in (
        ("named", "the first name counts", "processor\t: 0\nmodel name\t: AMD  EPYC\nmodel name\t: other\n"),
        ("kinds", "cores of two kinds, each once, in order", CORES),
        ("unnamed", "an empty name is none", "model name\t:\n" + CORES),
        ("nothing", "a text without either", "Hardware\t: Qualcomm\n"),
    ):
        yield vector(name, why, {"cpuinfo": text}, {"cpu": rule.cpu(text)})
