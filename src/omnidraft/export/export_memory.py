"""Memory of an export: its peak, and how much a check may use."""

from __future__ import annotations

import shutil
from pathlib import Path

from omnidraft.runtime.bundle.memory import available_bytes
from omnidraft.runtime.bundle.memory import peak_bytes as peak_bytes

_BESIDE = 1 << 30  # bytes for Python, torch, onnxruntime and the buffers of a check
_DISK_SPARE = 1 << 30  # bytes of the disk that a check leaves free


def room_for_weights(place: Path) -> int | None:
    """Bytes of float32 weights that fit on the disk of `place` and in memory; None if memory is unknown."""
    available = available_bytes()
    if available is None:
        return None
    return max(0, min(available - _BESIDE, shutil.disk_usage(place).free - _DISK_SPARE))


def layers_within(room: int | None, outside: int, layer_bytes: int, layers: int, period: int) -> int:
    """Number of layers that fit into `room` bytes.

    Args:
        room: bytes; None for no limit.
        period: kinds of layers repeat after this many; a part of the layers is a multiple of it, and at least
            one period.
    """
    if room is None or outside + layers * layer_bytes <= room:
        return layers
    fitting = max(0, room - outside) // layer_bytes
    return min(layers, max(period, fitting - fitting % period))
