"""Checks of this machine without a bundle: versions, providers, free memory, and no usage reports."""

import importlib.metadata
import platform
import sys

import onnxruntime

from omnidraft import __version__
from omnidraft.doctor.check import Check
from omnidraft.doctor.telemetry import telemetry_check
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
