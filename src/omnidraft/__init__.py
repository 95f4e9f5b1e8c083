"""omnidraft: one small drafter that speeds up any target language model, exactly."""

import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

# onnxruntime >= 1.29 reports usage unless told not to before it loads; nothing here leaves the machine.
_os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from omnidraft.errors import OmnidraftError
from omnidraft.version import __version__

if _TYPE_CHECKING:
    from omnidraft.runtime.session.api import (
        Generation,
        GenerationConfig,
        LoadedBundle,
        Piece,
        Session,
        TraceStore,
        load,
        load_bundle,
        read_traces,
    )

__all__ = [
    "Generation",
    "GenerationConfig",
    "LoadedBundle",
    "OmnidraftError",
    "Piece",
    "Session",
    "TraceStore",
    "__version__",
    "load",
    "load_bundle",
    "read_traces",
]


def __getattr__(name: str) -> object:
    """What needs onnxruntime loads it when it is first asked for, so that the command line starts at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from omnidraft.runtime.session import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
