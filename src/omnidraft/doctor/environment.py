"""This machine without a bundle: versions, providers, free memory, and that nothing reports usage."""

import importlib.metadata
import platform
import re
import sys

import onnxruntime

from omnidraft import __version__
from omnidraft.doctor.check import Check
from omnidraft.doctor.telemetry import telemetry_check
from omnidraft.runtime.bundle.memory import available_bytes

# As in pyproject.toml: a test compares them.
CORE = {
    "numpy": "1.26",
    "onnxruntime": "1.23",
    "tokenizers": "0.22",
    "safetensors": "0.5",
    "typer": "0.15",
    "rich": "13.7",
}
OPTIONAL = {
    "export": ("torch", "transformers", "optimum", "onnx", "onnxscript", "jinja2"),
    "sign": ("cryptography",),
}
_USE = {"export": "making bundles", "sign": "signing bundles and checking signatures"}
PYTHON = ((3, 10), (3, 13))  # first and last that are supported
CLOUD = "AzureExecutionProvider"  # sends tensors to a service; never used here


def environment_checks() -> list[Check]:
    """Every finding about this machine."""
    return [
        python_check(sys.version_info[:2]),
        *(core_check(name, least, version_of(name)) for name, least in CORE.items()),
        *(optional_check(extra, {n: version_of(n) for n in names}) for extra, names in OPTIONAL.items()),
        providers_check(onnxruntime.get_available_providers()),
        memory_check(available_bytes()),
        telemetry_check(),
    ]


def version_of(package: str) -> str | None:
    """The version that is installed; None where it is not."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pass
    # The same library under another name, for other hardware.
    if package == "onnxruntime":
        return str(onnxruntime.__version__)
    return None


def python_check(version: tuple[int, ...]) -> Check:
    said = ".".join(map(str, version))
    details = {"python": platform.python_version(), "omnidraft": __version__, "machine": platform.machine()}
    if PYTHON[0] <= version <= PYTHON[1]:
        found = f"omnidraft {__version__} on Python {platform.python_version()}, {platform.platform()}"
        return Check("python", "ok", found, details=details)
    return Check(
        "python", "fail", f"Python {said} is not supported", "use Python 3.10, 3.11, 3.12 or 3.13", details
    )


def core_check(package: str, least: str, version: str | None) -> Check:
    """A package that running bundles needs."""
    install = f"run `pip install '{package}>={least}'`"
    details = {"version": version, "least": least}
    if version is None:
        return Check(package, "fail", "not installed", install, details)
    if _numbers(version) < _numbers(least):
        return Check(package, "fail", f"{version} is older than {least}", install, details)
    return Check(package, "ok", version, details=details)


def optional_check(extra: str, versions: dict[str, str | None]) -> Check:
    """Packages that only one kind of work needs; a machine that only runs bundles is well without them."""
    there = [f"{name} {version}" for name, version in versions.items() if version]
    absent = [name for name, version in versions.items() if not version]
    details = {"versions": versions}
    if not absent:
        return Check(f"{extra} packages", "ok", ", ".join(there), details=details)
    found = f"{', '.join(absent)} not installed, which only {_USE[extra]} needs"
    if there:
        found += f" ({', '.join(there)})"
    return Check(
        f"{extra} packages", "ok", found, f"`pip install 'omnidraft[{extra}]'` if you want it", details
    )


def providers_check(available: list[str]) -> Check:
    """Where onnxruntime can run graphs here."""
    details = {"available": available}
    if "CPUExecutionProvider" not in available:
        return Check(
            "providers", "fail", f"onnxruntime offers {', '.join(available) or 'none'} and no CPU provider",
            "install onnxruntime again: `pip install --force-reinstall onnxruntime`", details,
        )  # fmt: skip
    found = ", ".join(available)
    if CLOUD in available:
        found += f"; omnidraft never uses {CLOUD}, which sends tensors to a service"
    return Check("providers", "ok", found, details=details)


def memory_check(free: int | None) -> Check:
    found = (
        "how much is free cannot be told on this system" if free is None else f"{free / 1e6:.0f} MB are free"
    )
    return Check("free memory", "ok", found, details={"bytes": free})


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:3])
