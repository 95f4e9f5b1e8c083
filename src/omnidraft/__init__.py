"""omnidraft: exact speculative decoding across tokenizers, with one small drafter for many targets."""

import os as _os
import sys as _sys
import warnings as _warnings
from typing import TYPE_CHECKING as _TYPE_CHECKING

# onnxruntime >= 1.29 reports usage unless told not to before it loads; nothing here leaves the machine.
if _os.environ.get("ORT_DISABLE_TELEMETRY") != "1" and hasattr(
    _sys.modules.get("onnxruntime"), "disable_telemetry_events"
):
    _sys.modules["onnxruntime"].disable_telemetry_events()
    _warnings.warn(
        "onnxruntime was imported before omnidraft: from version 1.29 on its import records a report of "
        "usage, and only later ones are stopped; import omnidraft first, or set ORT_DISABLE_TELEMETRY=1",
        RuntimeWarning,
        stacklevel=2,
    )
_os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from omnidraft.errors import OmnidraftError
from omnidraft.version import __version__

if _TYPE_CHECKING:
    from omnidraft.runtime.session.api import (
        Generation,
        GenerationConfig,
        LanguageModel,
        Notice,
        Piece,
        TextSession,
        ToolCall,
        TraceStore,
        load,
        load_bundle,
        read_traces,
    )

__all__ = [
    "Generation",
    "GenerationConfig",
    "LanguageModel",
    "Notice",
    "OmnidraftError",
    "Piece",
    "TextSession",
    "ToolCall",
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
