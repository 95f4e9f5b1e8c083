"""A session of onnxruntime on an execution provider, which is built in or a library of its own.

On an accelerator nothing falls back to the CPU: a graph that the accelerator takes only in part is refused.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import onnxruntime as ort

from omnidraft.errors import BundleError, reason
from omnidraft.runtime.bundle.places import CPU, Provider
from omnidraft.runtime.models.engine_memory import own_arena
from omnidraft.runtime.models.onnx_session import NO_PREPACKING, NOTHING, session_options

_LIBRARIES = {"QNNExecutionProvider": "onnxruntime_qnn"}  # packages that hold the library of a provider


def open_graph(
    path: Path, provider: Provider, threads: int, entries: Mapping[str, str] = {}
) -> ort.InferenceSession:
    """A session for a graph that runs entirely on `provider`.

    Raises:
        BundleError: onnxruntime has no such provider here, or cannot load the graph with it.
    """
    if provider.name == CPU:
        # The blocks of a model share one mapped file of weights; packed, each session would hold its own.
        options = session_options(threads, {**NO_PREPACKING, **entries}, log_level=NOTHING)
    else:
        strict = {"session.disable_cpu_ep_fallback": "1"}
        options = session_options(threads, {**strict, **entries}, log_level=NOTHING)
    # A registered library is listed as available too, but is chosen by its devices.
    built_in = provider.name in ort.get_available_providers() and not _registered(provider)
    if not built_in:
        _add_library(options, provider)
    try:
        chosen = [(provider.name, dict(provider.options))] if built_in else None
        # Constants are folded: the weights of static graphs are float16 behind a Cast.
        with own_arena(options):
            return ort.InferenceSession(str(path), options, providers=chosen)
    except Exception as error:  # onnxruntime's own exceptions share no narrower base
        raise BundleError(
            f"{provider.name} cannot load {path} ({reason(error)})",
            "use the CPU, or run `omnidraft export` again",
            fault="graph",
        ) from None


def _add_library(options: ort.SessionOptions, provider: Provider) -> None:
    package = _LIBRARIES.get(provider.name, "")
    try:
        library = import_module(package) if package else None
    except ImportError:
        library = None
    if library is None:
        remedy = f"install {package.replace('_', '-')} or " if package else ""
        raise BundleError(
            f"onnxruntime {ort.__version__} has no {provider.name} here, it has "
            f"{', '.join(ort.get_available_providers())}",
            f"{remedy}use the CPU",
            fault="graph",
        )
    if not _registered(provider):
        ort.register_execution_provider_library(provider.name, library.get_library_path())
    options.add_provider_for_devices(_registered(provider)[:1], dict(provider.options))


def _registered(provider: Provider) -> list[ort.OrtEpDevice]:
    if provider.name not in _LIBRARIES:
        return []
    return [device for device in ort.get_ep_devices() if device.ep_name == provider.name]
