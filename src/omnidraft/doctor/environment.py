"""Checks of this machine without a bundle: versions, providers, free memory, and no usage reports."""

import importlib.metadata
import platform
import re
import sys

import onnxruntime

from omnidraft import __version__
from omnidraft.doctor.check import Check
from omnidraft.doctor.telemetry import telemetry_check
from omnidraft.errors import install
from omnidraft.runtime.bundle.memory import available_bytes

# As in pyproject.toml; a test compares them.
CORE = {
    "numpy": "1.26",
    "onnxruntime": "1.23",
    "tokenizers": "0.22",
    "safetensors": "0.5",
    "typer": "0.15",
    "rich": "13.7",
}
OPTIONAL = {
    "export": ("torch", "transformers", "optimum", "onnx", "onnxscript", "jinja2", "gguf"),
    "sign": ("cryptography",),
}
_USE = {"export": "making bundles", "sign": "signing bundles and checking signatures"}
PYTHON = ((3, 10), (3, 13))  # first and last supported version
CLOUD = "AzureExecutionProvider"  # sends tensors to a service; never used here


def environment_checks() -> list[Check]:
    """All checks of this machine."""
    return [
        python_check(sys.version_info[:2]),
        *(core_check(name, least, version_of(name)) for name, least in CORE.items()),
        *(optional_check(extra, {n: version_of(n) for n in names}) for extra, names in OPTIONAL.items()),
        providers_check(onnxruntime.get_available_providers()),
        memory_check(available_bytes()),
        telemetry_check(),
    ]


def version_of(package: str) -> str | None:
    """The installed version of a package; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pass
    # Builds of onnxruntime for other hardware have other package names.
    if package == "onnxruntime":
        return str(onnxruntime.__version__)
    return None


def python_check(version: tuple[int, ...]) -> Check:
    """Whether the version of Python is supported."""
    details = {"python": platform.python_version(), "omnidraft": __version__, "machine": platform.machine()}
    if PYTHON[0] <= version <= PYTHON[1]:
        message = f"omnidraft {__version__} on Python {platform.python_version()}, {platform.platform()}"
        return Check("python", "ok", message, details=details)
    message = f"Python {'.'.join(map(str, version))} is not supported"
    return Check("python", "fail", message, "use Python 3.10, 3.11, 3.12 or 3.13", details)


def core_check(package: str, least: str, version: str | None) -> Check:
    """A package that is needed to run bundles."""
    install = f"run `pip install '{package}>={least}'`"
    details = {"version": version, "least": least}
    if version is None:
        return Check(package, "fail", "not installed", install, details)
    if _numbers(version) < _numbers(least):
        return Check(package, "fail", f"{version} is older than {least}", install, details)
    return Check(package, "ok", version, details=details)


def optional_check(extra: str, versions: dict[str, str | None]) -> Check:
    """The packages of an extra; a machine that only runs bundles does not need them."""
    present = [f"{name} {version}" for name, version in versions.items() if version]
    absent = [name for name, version in versions.items() if not version]
    details = {"versions": versions}
    if not absent:
        return Check(f"{extra} packages", "ok", ", ".join(present), details=details)
    message = f"{', '.join(absent)} not installed, which only {_USE[extra]} needs"
    if present:
        message += f" ({', '.join(present)})"
    remedy = f"if you want it, {install(extra)}"
    return Check(f"{extra} packages", "ok", message, remedy, details)


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


def memory_check(free: int | None) -> Check:
    """The free memory of this machine, in bytes; None where the system does not tell it."""
    message = (
        "how much is free cannot be told on this system" if free is None else f"{free / 1e6:.0f} MB are free"
    )
    return Check("free memory", "ok", message, details={"bytes": free})


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:3])
