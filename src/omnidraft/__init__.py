"""omnidraft: one small drafter that speeds up any target language model, exactly."""

import os

# onnxruntime >= 1.29 reports usage unless told not to before it loads; nothing here leaves the machine.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from omnidraft.errors import OmnidraftError
from omnidraft.runtime.generate import Generation, Piece, Request, Session, Weights, load, load_weights
from omnidraft.runtime.version import __version__

__all__ = [
    "Generation",
    "OmnidraftError",
    "Piece",
    "Request",
    "Session",
    "Weights",
    "__version__",
    "load",
    "load_weights",
]
