"""The state of a trainer as a file: all that a resumed training needs to give the same results."""

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
) -> None:
    """Write the state; an old file is replaced atomically.

    Args:
        parameters: the trained parameters by name.
        optimizer: AdamW; its moments are written.
        options: of the training, as JSON values.
        counts: numbers of steps and responses.

    Raises:
        SettingError: the file cannot be written; an old file is unchanged.
    """
    tensors: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        tensors[f"parameter.{name}"] = parameter.detach().cpu().contiguous()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}.{name}"] = value.detach().cpu().contiguous()
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    FORMAT.write(path, arrays, {"options": dict(options), "counts": dict(counts)})


def read_state(
    path: Path,
    parameters: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    options: Mapping[str, Any],
    responses: int,
) -> dict[str, int]:
    """Load a file's state into parameters and optimizer; nothing is changed if the file is refused.

    Args:
        parameters: the trained parameters by name; their values are replaced.
        optimizer: AdamW; its moments are replaced.
        options: of this training; the file's must be the same.
        responses: number of responses of this training; the file's must be the same.

    Returns:
        the counts.

    Raises:
        SettingError: the file cannot be read, or is of other options, responses or another model.
    """
    saved = FORMAT.read(path)
    tensors = {name: torch.from_numpy(array) for name, array in saved.arrays.items()}
    try:
        recorded = saved.metadata["counts"]
        counts = {key: int(recorded[key]) for key in ("steps", "skipped", "responses")}
    except (KeyError, ValueError, TypeError) as error:
        raise FORMAT.refusal(path, f"has no readable header ({reason(error)})") from None
    FORMAT.check_same(path, saved.metadata.get("options"), options)
    if counts["responses"] != responses:
        raise FORMAT.refusal(path, f"was made on {counts['responses']} responses and not on {responses}")
    _check_tensors(path, parameters, tensors)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[f"parameter.{name}"])
            moments = {key: tensors[f"{key}.{name}"] for key in _MOMENTS if f"{key}.{name}" in tensors}
            # AdamW keeps its count of steps on the CPU and the moments on the parameter's device.
            optimizer.state[parameter] = {
                key: value if key == "step" else value.to(parameter.device) for key, value in moments.items()
            }
    return counts


def _check_tensors(path: Path, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors with other names or shapes than the parameters'."""
    stored = {name.partition(".")[2]: t for name, t in tensors.items() if name.startswith("parameter.")}
    if stored.keys() != parameters.keys():
        raise FORMAT.refusal(
            path, f"holds {len(stored)} parameters and the model has {len(parameters)} others"
        )
    for name, parameter in parameters.items():
        moments = [
            tensors.get(f"{key}.{name}") for key in _MOMENTS
        ]  # all of them, or none before a first step
        shapes = {stored[name].shape, *(t.shape for t in moments[:2] if t is not None)}
        if shapes != {parameter.shape} or len({t is None for t in moments}) != 1:
            raise FORMAT.refusal(
                path, f"stores {name} as {tuple(stored[name].shape)}, not {tuple(parameter.shape)}"
            )
