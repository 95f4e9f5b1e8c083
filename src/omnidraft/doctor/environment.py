"""Checks of this machine without a bundle: versions, providers, free memory, and no usage reports."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import onnxruntime

from omnidraft import __version__
from omnidraft.doctor.check import Check
from omnidraft.errors import install
from omnidraft.runtime.bundle.memory import available_bytes

CORE = ("numpy", "onnxruntime", "tokenizers", "safetensors")
# By extra: what it is for, and its packages.
OPTIONAL = {
    "export": (
        "making bundles",
        ("torch", "transformers", "optimum", "onnx", "onnxscript", "jinja2", "gguf"),
    ),
    "sign": ("signing bundles and checking signatures", ("cryptography",)),
}
PYTHON = ((3, 10), (3, 13))  # first and last supported version
CLOUD = "AzureExecutionProvider"  # sends tensors to a service; never used here


def environment_checks() -> list[Check]:
    """All checks of this machine."""
    free = available_bytes()
    told = (
        "how much is free cannot be told on this system" if free is None else f"{free / 1e6:.0f} MB are free"
    )
    return [
        python_check(sys.version_info[:2]),
        core_check({name: version_of(name) for name in CORE}),
        *(optional_check(extra, {n: version_of(n) for n in names}) for extra, (_, names) in OPTIONAL.items()),
        providers_check(onnxruntime.get_available_providers()),
        Check("free memory", "ok", told, details={"bytes": free}),
        telemetry_check(),
    ]


def version_of(package: str) -> str | None:
    """The installed version of a package; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        # Builds of onnxruntime for other hardware have other package names.
        return str(onnxruntime.__version__) if package == "onnxruntime" else None


def python_check(version: tuple[int, ...]) -> Check:
    """Whether the version of Python is supported."""
    details = {"python": platform.python_version(), "omnidraft": __version__, "machine": platform.machine()}
    if PYTHON[0] <= version <= PYTHON[1]:
        message = f"omnidraft {__version__} on Python {platform.python_version()}, {platform.platform()}"
        return Check("python", "ok", message, details=details)
    message = f"Python {'.'.join(map(str, version))} is not supported"
    return Check("python", "fail", message, "use Python 3.10, 3.11, 3.12 or 3.13", details)


def core_check(versions: dict[str, str | None]) -> Check:
    """The packages that every machine needs."""
    present = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    absent = [name for name, version in versions.items() if not version]
    details = {"versions": versions}
    if not absent:
        return Check("packages", "ok", present, details=details)
    message, remedy = f"{', '.join(absent)} not installed", f"run `pip install {' '.join(absent)}`"
    return Check("packages", "fail", f"{message} ({present})" if present else message, remedy, details)


def optional_check(extra: str, versions: dict[str, str | None]) -> Check:
    """The packages of an extra; a machine that only runs bundles does not need them."""
    present = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    absent = ", ".join(name for name, version in versions.items() if not version)
    name, details = f"{extra} packages", {"versions": versions}
    if not absent:
        return Check(name, "ok", present, details=details)
    message = f"{absent} not installed, which only {OPTIONAL[extra][0]} needs"
    remedy = f"if you want it, {install(extra)}"
    return Check(name, "ok", f"{message} ({present})" if present else message, remedy, details)


def providers_check(available: list[str]) -> Check:
    """The execution providers of this onnxruntime."""
    details = {"available": available}
    if "CPUExecutionProvider" not in available:
        return Check(
            "providers", "fail", f"onnxruntime offers {', '.join(available) or 'none'} and no CPU provider",
            "install onnxruntime again: `pip install --force-reinstall onnxruntime`", details,
        )  # fmt: skip
    message = ", ".join(available)
    if CLOUD in available:
        message += f"; omnidraft never uses {CLOUD}, which sends tensors to a service"
    return Check("providers", "ok", message, details=details)


VARIABLE = "ORT_DISABLE_TELEMETRY"
# y = Identity(x), float32 [1], opset 20, as 67 bytes of ONNX; no other package is needed to write them.
TINY = bytes.fromhex(
    "080a12003a370a100a017812017922084964656e746974791201675a0f0a0178120a0a08080112040a020801620f0a0179"
    "120a0a08080112040a02080142040a001014"
)
_CHILD = """
import json, os, sys
seen = []
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            seen.append(os.environ.get("ORT_DISABLE_TELEMETRY"))
sys.meta_path.insert(0, Watch())
import {module}
import numpy, onnxruntime
graph = sys.stdin.buffer.read()
session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
session.run(None, {{"x": numpy.ones(1, numpy.float32)}})
print(json.dumps(seen[0]))
"""
_PLACES = (
    "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "XDG_STATE_HOME", "TMPDIR",
)  # fmt: skip


def telemetry_check(module: str = "omnidraft") -> Check:
    """Run a graph in a program that begins with `import omnidraft`, and check that it wrote no file."""
    remedy = f"set {VARIABLE}=1 in the environment before onnxruntime is used, and report this"
    with tempfile.TemporaryDirectory() as home:
        try:
            seen = _value_in_child(module, home)
        except (OSError, subprocess.SubprocessError, ValueError, RuntimeError) as error:
            why = (str(error).strip().splitlines() or ["no reason given"])[-1][:200]
            return Check("telemetry", "fail", f"could not be tried ({why})", remedy)
        written = sorted(f.relative_to(home).as_posix() for f in Path(home).rglob("*") if f.is_file())
    details = {"before_loading": seen, "in_this_process": os.environ.get(VARIABLE), "files_written": written}
    if written:
        return Check("telemetry", "fail", f"onnxruntime wrote {', '.join(written)}", remedy, details)
    if seen != "1":
        return Check(
            "telemetry", "fail", f"{VARIABLE} was {seen!r} when onnxruntime was loaded", remedy, details
        )
    message = f"off: {VARIABLE}=1 before onnxruntime was loaded; a trial run in an empty home wrote no file"
    return Check("telemetry", "ok", message, details=details)


def _value_in_child(module: str, home: str) -> str | None:
    """The value of the variable when a new process imported onnxruntime."""
    environment = {k: v for k, v in os.environ.items() if k != VARIABLE} | dict.fromkeys(_PLACES, home)
    # Packages may be below the real home directory, or the path may have been changed.
    environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    child = subprocess.run(
        [sys.executable, "-B", "-c", _CHILD.format(module=module)],
        input=TINY, capture_output=True, env=environment, timeout=120,
    )  # fmt: skip
    if child.returncode:
        raise RuntimeError(child.stderr.decode(errors="replace"))
    value = json.loads(child.stdout)
    return None if value is None else str(value)
