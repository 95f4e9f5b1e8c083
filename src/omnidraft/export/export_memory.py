"""Memory of an export: what it took at its peak, and what a check may take."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from omnidraft.runtime.bundle.memory import available_bytes

_BESIDE = 1 << 30  # bytes: Python, torch, onnxruntime and the buffers of a check
_DISK_SPARE = 1 << 30  # bytes that a check leaves free on the disk


def peak_bytes() -> int | None:
    """The most memory that this process had resident, mapped files too; None where nobody counts."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def room_for_weights(place: Path) -> int | None:
    """Bytes of float32 weights that can be written to `place` and mapped; None where memory is unknown."""
    available = available_bytes()
    if available is None:
        return None
    return max(0, min(available - _BESIDE, shutil.disk_usage(place).free - _DISK_SPARE))


def layers_within(room: int | None, outside: int, a_layer: int, layers: int, period: int) -> int:
    """How many of `layers` layers of `a_layer` bytes fit into `room` bytes beside `outside` bytes.

    A part of them is a multiple of `period`, after which kinds of layers repeat, and at least that.
    """
    if room is None or outside + layers * a_layer <= room:
        return layers
    fitting = max(0, room - outside) // a_layer
    return min(layers, max(period, fitting - fitting % period))
