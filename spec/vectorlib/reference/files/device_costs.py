"""Costs that a device measured and kept: spec/08-phones.md, "Costs of a device"."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from vectorlib.reference.json_text import bits

Machine = Mapping[str, Any]
FIELDS = ("cpu", "cores", "system", "onnxruntime", "threads", "target_on", "drafter_on")  # in this order


def key(seal: str, machine: Machine) -> str:
    """The name of the record."""
    parts = [seal, *(str(machine[name]) for name in FIELDS)]
    return hashlib.sha256(b"".join(part.encode() + b"\0" for part in parts)).hexdigest()[:32]


def record(seal: str, machine: Machine, costs: Mapping[str, Any]) -> str:
    """The text of the record."""
    fields = {
        "format": "omnidraft.costs",
        "version": 1,
        "seal": seal,
        "machine": {name: machine[name] for name in FIELDS},
        "target": [bits(seconds) for seconds in costs["target"]],
        "draft": bits(costs["draft"]),
        "host": bits(costs["host"]),
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def source(measure: str, machine: Machine, measured_on: Machine | None, kept: bool) -> str:
    """Which costs a loaded bundle uses, or that they are measured first."""
    if measure != "auto":
        return {"never": "manifest", "always": "measure"}[measure]
    if kept:
        return "kept"
    return "manifest" if measured_on == machine else "measure"


def cpu(cpuinfo: str) -> str:
    """The processor's model in the text of /proc/cpuinfo."""
    named = re.search(r"^model name\s*:[ \t]*(\S.*?)\s*$", cpuinfo, re.MULTILINE)
    if named:
        return named[1]
    kinds = zip(
        re.findall(r"^CPU implementer\s*:\s*(\S+)", cpuinfo, re.MULTILINE),
        re.findall(r"^CPU part\s*:\s*(\S+)", cpuinfo, re.MULTILINE),
        strict=False,
    )
    return ", ".join(sorted({f"{maker} {part}" for maker, part in kinds}))
