"""The file of a learner's state: safetensors with the settings that it was made with, written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from omnidraft.errors import SettingError, reason
from omnidraft.runtime.disk.atomic_write import write_atomically

FORMAT, VERSION = "omnidraft.learner_state", "1"
Arrays = Mapping[str, npt.NDArray[np.generic]]


def write_state(path: Path, state: Arrays, settings: Mapping[str, Any]) -> None:
    """Write a learner's `state()`; killed at any point, the file is the old or the new one, whole.

    Args:
        settings: what going on needs to have the same, as JSON holds it.

    Raises:
        SettingError: the file cannot be written; an old one is whole.
    """
    header = {
        "format": FORMAT,
        "version": VERSION,
        "settings": json.dumps(dict(settings), sort_keys=True),
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in state.items()}
    try:
        write_atomically(path, save(arrays, header))
    except OSError as error:
        raise SettingError(f"{path} cannot be written ({reason(error)})", "give another place") from None


def read_state(path: Path, settings: Mapping[str, Any]) -> dict[str, npt.NDArray[np.generic]]:
    """The state in a file that was made with these settings.

    Raises:
        SettingError: it cannot be read, or was made with others.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise _refused(path, f"cannot be read ({reason(error)})") from None
    if (header.get("format"), header.get("version")) != (FORMAT, VERSION):
        raise _refused(path, f"is {header.get('format')} version {header.get('version')}")
    try:
        theirs = dict(json.loads(header["settings"]))
    except (KeyError, ValueError, TypeError) as error:
        raise _refused(path, f"has no readable settings ({reason(error)})") from None
    for name, ours in settings.items():
        if theirs.get(name) != ours:
            raise _refused(path, f"was made with {name} {theirs.get(name)!r:.80} and not {ours!r:.80}")
    return state


def _refused(path: Path, why: str) -> SettingError:
    return SettingError(f"{path} {why}, so learning cannot go on from it", "delete it or name another file")
