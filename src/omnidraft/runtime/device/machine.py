"""The machine that costs were measured on: what decides how long a pass takes, nothing that names a user."""

import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omnidraft.runtime.disk.json_fields import integer, text

MAX_CORES = 1 << 16
MAX_CPU, MAX_TEXT = 256, 64  # bytes
_CPUINFO, _CPUINFO_BYTES = Path("/proc/cpuinfo"), 1 << 16  # the first cores are enough
_SYSCTL = ("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string")


@dataclass(frozen=True)
class Machine:
    """A machine and how the models run on it. Costs are of one machine: all fields are equal.

    Attributes:
        cores: of the processor, that the process may use.
        target_on, drafter_on: places of the models (see `placement.placed`).
    """

    cpu: str
    cores: int
    system: str
    onnxruntime: str
    threads: int
    target_on: str
    drafter_on: str

    def as_json(self) -> dict[str, Any]:
        """The fields in order."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.threads} of {self.cores} cores, {self.system}, "
            f"onnxruntime {self.onnxruntime}, target on {self.target_on}, drafter on {self.drafter_on}"
        )


def read_machine(data: dict[str, Any]) -> Machine:
    """A machine from the fields of an object of JSON.

    Raises:
        KeyError, ValueError: a field is missing, of another kind, or out of its range.
    """
    cpu, target_on, drafter_on = (text(data[name], MAX_CPU) for name in ("cpu", "target_on", "drafter_on"))
    system, version = (text(data[name], MAX_TEXT) for name in ("system", "onnxruntime"))
    cores, threads = (integer(data[name], 1, MAX_CORES) for name in ("cores", "threads"))
    return Machine(cpu, cores, system, version, threads, target_on, drafter_on)


def this_machine(onnxruntime: str, threads: int, target_on: str, drafter_on: str) -> Machine:
    """This machine; see `Machine` for the arguments."""
    return Machine(
        cpu=_short(_cpu() or platform.machine() or "unknown", MAX_CPU),
        cores=min(_cores(), MAX_CORES),
        system=_short(f"{platform.system()} {platform.machine()}", MAX_TEXT),
        onnxruntime=_short(onnxruntime, MAX_TEXT),
        threads=threads,
        target_on=_short(target_on, MAX_CPU),
        drafter_on=_short(drafter_on, MAX_CPU),
    )


def _cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> str:
    """The model of the processor; empty where the system does not tell it."""
    try:
        if sys.platform == "win32":
            return os.environ.get("PROCESSOR_IDENTIFIER", "")
        if sys.platform == "darwin":
            return subprocess.run(_SYSCTL, capture_output=True, text=True, check=True, timeout=5).stdout
        with _CPUINFO.open("rb") as file:
            return cpu_of(file.read(_CPUINFO_BYTES).decode("utf-8", "replace"))
    except (OSError, subprocess.SubprocessError):
        return ""


def cpu_of(cpuinfo: str) -> str:
    """The model of the processor in the text of /proc/cpuinfo: its name, or its kinds of cores by number."""
    lines = (line.partition(":") for line in cpuinfo.split("\n"))
    fields = [(name.strip(), value.strip()) for name, _, value in lines]
    for name, value in fields:
        if name == "model name" and value:
            return value
    makers = [value for name, value in fields if name == "CPU implementer"]
    parts = [value for name, value in fields if name == "CPU part"]
    return ", ".join(sorted({f"{maker} {part}" for maker, part in zip(makers, parts, strict=False)}))


def _short(value: str, most: int) -> str:
    """A text in one line of printable characters, of at most `most` bytes."""
    line = "".join(c if c.isprintable() else " " for c in value)
    return " ".join(line.split()).encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
