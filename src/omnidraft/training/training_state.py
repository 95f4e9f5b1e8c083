"""What a trainer must keep to go on as if it had never stopped: one safetensors file, written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from omnidraft.errors import SettingError, reason
from omnidraft.runtime.disk.atomic_write import write_atomically

FORMAT, VERSION = "omnidraft.training_state", "1"
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def write_state(
    path: Path,
    parameters: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    options: Mapping[str, Any],
    counts: Mapping[str, int],
    more: Mapping[str, Tensor] | None = None,
) -> None:
    """Write parameters, AdamW's moments, the options that they were made with, counts, and tensors besides.

    Raises:
        SettingError: the file cannot be written; an old one is whole.
    """
    tensors: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        tensors[f"parameter.{name}"] = parameter.detach().cpu().contiguous()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}.{name}"] = value.detach().cpu().contiguous()
    tensors |= {f"more.{name}": tensor for name, tensor in (more or {}).items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "options": json.dumps(dict(options), sort_keys=True),
        "counts": json.dumps(dict(counts), sort_keys=True),
    }
    try:
        write_atomically(path, save(tensors, header))
    except OSError as error:
        raise SettingError(f"{path} cannot be written ({reason(error)})", "give another place") from None


def read_state(
    path: Path,
    parameters: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    options: Mapping[str, Any],
    responses: int,
) -> tuple[dict[str, int], dict[str, Tensor]]:
    """Put the state of a file in place; nothing is changed where it is refused.

    Returns:
        its counts, and the tensors besides.

    Raises:
        SettingError: it cannot be read, or is of other options, responses or another model.
    """
    header, tensors = _read(path)
    try:
        theirs, counts = json.loads(header["options"]), json.loads(header["counts"])
        differs = [k for k in options if theirs.get(k) != options[k]]
        found = {key: int(counts[key]) for key in ("steps", "skipped", "begun", "responses")}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise _refused(path, f"has no readable header ({reason(error)})") from None
    if differs:
        key = differs[0]
        raise _refused(path, f"was made with {key} {theirs.get(key)!r} and not {options[key]!r}")
    if found["responses"] != responses:
        raise _refused(path, f"was made on {found['responses']} responses and not on {responses}")
    _check_tensors(path, parameters, tensors)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[f"parameter.{name}"])
            state = {key: tensors[f"{key}.{name}"] for key in _MOMENTS if f"{key}.{name}" in tensors}
            # AdamW keeps its count of steps on the CPU, the moments beside the parameter.
            optimizer.state[parameter] = {
                key: value if key == "step" else value.to(parameter.device) for key, value in state.items()
            }
    besides = {name.removeprefix("more."): t for name, t in tensors.items() if name.startswith("more.")}
    return found, besides


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise _refused(path, f"cannot be read ({reason(error)})") from None
    if (header.get("format"), header.get("version")) != (FORMAT, VERSION):
        raise _refused(path, f"is {header.get('format')} version {header.get('version')}")
    return header, tensors


def _check_tensors(path: Path, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]) -> None:
    stored = {name.partition(".")[2]: t for name, t in tensors.items() if name.startswith("parameter.")}
    if stored.keys() != parameters.keys():
        raise _refused(path, f"holds {len(stored)} parameters and the model has {len(parameters)} others")
    for name, parameter in parameters.items():
        halves = [tensors.get(f"{key}.{name}") for key in _MOMENTS]
        shapes = {stored[name].shape, *(t.shape for t in halves[:2] if t is not None)}
        if shapes != {parameter.shape} or len({t is None for t in halves}) != 1:
            raise _refused(
                path, f"stores {name} as {tuple(stored[name].shape)}, not {tuple(parameter.shape)}"
            )


def _refused(path: Path, why: str) -> SettingError:
    return SettingError(f"{path} {why}, so training cannot go on from it", "delete it or name another file")
