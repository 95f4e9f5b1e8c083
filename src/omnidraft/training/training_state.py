"""What a trainer must keep to go on as if it had never stopped: one safetensors file, written atomically."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from omnidraft.errors import reason
from omnidraft.learning.step.state_file import StateFormat

FORMAT = StateFormat("omnidraft.training_state", "1", "training")
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
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    FORMAT.write(path, arrays, {"options": dict(options), "counts": dict(counts)})


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
    state = FORMAT.read(path)
    tensors = {name: torch.from_numpy(array) for name, array in state.arrays.items()}
    try:
        recorded = state.metadata["counts"]
        found = {key: int(recorded[key]) for key in ("steps", "skipped", "begun", "responses")}
    except (KeyError, ValueError, TypeError) as error:
        raise FORMAT.refusal(path, f"has no readable header ({reason(error)})") from None
    FORMAT.check_same(path, state.metadata.get("options"), options)
    if found["responses"] != responses:
        raise FORMAT.refusal(path, f"was made on {found['responses']} responses and not on {responses}")
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


def _check_tensors(path: Path, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]) -> None:
    stored = {name.partition(".")[2]: t for name, t in tensors.items() if name.startswith("parameter.")}
    if stored.keys() != parameters.keys():
        raise FORMAT.refusal(
            path, f"holds {len(stored)} parameters and the model has {len(parameters)} others"
        )
    for name, parameter in parameters.items():
        halves = [tensors.get(f"{key}.{name}") for key in _MOMENTS]
        shapes = {stored[name].shape, *(t.shape for t in halves[:2] if t is not None)}
        if shapes != {parameter.shape} or len({t is None for t in halves}) != 1:
            raise FORMAT.refusal(
                path, f"stores {name} as {tuple(stored[name].shape)}, not {tuple(parameter.shape)}"
            )
