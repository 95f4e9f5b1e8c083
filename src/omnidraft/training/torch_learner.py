"""TorchLearner: a learner that computes with torch, on a checkpoint of the bundle's drafter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from omnidraft.errors import AdapterError, SettingError
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.step.learner import Learned
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.training.lora import to_adapter
from omnidraft.training.trainer import Trainer
from omnidraft.training.trainer_options import TrainerOptions

Arrays = dict[str, npt.NDArray[np.generic]]
_MOMENTS = ("exp_avg", "exp_avg_sq")
_COUNTS = ("steps", "skipped")


class TorchLearner:
    """A drafter's LoRA tensors in training.

    Implements `Learner` (learning/step/learner.py). The frozen weights are the checkpoint's. An adapter fits
    every form of these weights, so the bundle's may be quantized.
    """

    def __init__(self, drafter: str | nn.Module, loaded: LoadedBundle, options: TrainerOptions) -> None:
        """
        Args:
            drafter: its checkpoint (directory or hub id), whose fingerprint must be the bundle's; or a
                model, which is changed and which the caller guarantees to be the bundle's.
            loaded: the bundle.
            options: with a LoRA rank.

        Raises:
            AdapterError: fault `wrong_base`: the checkpoint is not the bundle's drafter; fault `no_sites`:
                the bundle's drafter takes no adapters.
            CheckpointError: the checkpoint does not exist or cannot be read.
            SettingError: the LoRA rank is missing or cannot be used.
        """
        if options.lora_rank is None:
            raise SettingError("a session takes LoRA adapters and the options have no rank", "32 is usual")
        entry, vocab_map = loaded.bundle.drafter, loaded.vocab_map
        if entry.lora is None or entry.fingerprint is None:
            raise AdapterError(
                f"the drafter of {loaded.bundle.path.name} takes no adapters",
                "export it again with lora_drafter = true",
                fault="no_sites",
            )
        self._lora, self._base = entry.lora, entry.fingerprint
        self._tokenizers = vocab_map.draft_fingerprint, vocab_map.target_fingerprint
        model = drafter if isinstance(drafter, nn.Module) else _load(drafter, loaded)
        self._trainer = Trainer(model, options)

    @property
    def rate(self) -> float:
        """Learning rate of the next steps."""
        return float(self._trainer.optimizer.param_groups[0]["lr"])

    @rate.setter
    def rate(self, rate: float) -> None:
        self._trainer.set_rate(rate)

    def learn(self, responses: Sequence[Aligned]) -> Learned:
        """One step on one batch of at least one response."""
        report = self._trainer.step(responses)
        return Learned(report.step, report.loss, report.terms, report.norm, report.skipped)

    def adapter(self) -> Adapter:
        """The current LoRA tensors as an adapter of the bundle's drafter.

        Raises:
            AdapterError: a value is not finite, or the tensors do not fit the bundle's drafter.
        """
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return to_adapter(self._trainer.model, self._lora, self._base, self._tokenizers, now)

    def state(self) -> Arrays:
        """Parameters, AdamW's moments and counts; copies."""
        state: Arrays = {"counts": np.array([getattr(self._trainer, c) for c in _COUNTS], dtype=np.int64)}
        for name, parameter in self._trainer.parameters.items():
            state[f"parameter.{name}"] = _copied(parameter)
            moments = self._trainer.optimizer.state.get(parameter, {})
            for key in (*_MOMENTS, "step"):
                if key in moments:
                    state[f"{key}.{name}"] = _copied(moments[key])
        return state

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state()`, with the same results as an uninterrupted training.

        Raises:
            SettingError: the state is of another learner; nothing is changed.
        """
        parameters, optimizer = self._trainer.parameters, self._trainer.optimizer
        self._check(state)
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(torch.from_numpy(state[f"parameter.{name}"]))
                keys = [key for key in (*_MOMENTS, "step") if f"{key}.{name}" in state]
                optimizer.state[parameter] = {
                    # AdamW keeps its count on the CPU and the moments on the parameter's device.
                    key: torch.from_numpy(state[f"{key}.{name}"].copy()).to(
                        "cpu" if key == "step" else parameter.device
                    )
                    for key in keys
                }
        self._trainer.steps, self._trainer.skipped = (int(c) for c in state["counts"])

    def _check(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        expected = {f"parameter.{n}": tuple(p.shape) for n, p in self._trainer.parameters.items()}
        shapes = {n: a.shape for n, a in state.items() if n.startswith("parameter.")}
        if expected.keys() != shapes.keys() or "counts" not in state:
            raise SettingError(
                f"the state of a learner has {len(shapes)} tensors and this one trains "
                f"{len(expected)} others",
                "go on with the settings that it was begun with",
            )
        for name, shape in expected.items():
            if shapes[name] != shape:
                raise SettingError(
                    f"the state of a learner has {name} of shape {list(shapes[name])}, not {list(shape)}",
                    "go on with the LoRA rank that it was begun with",
                )


def _load(name: str, loaded: LoadedBundle) -> nn.Module:
    """The bundle's drafter in float32, from its checkpoint."""
    from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint
    from omnidraft.checkpoints.fingerprint import fingerprint

    checkpoint = read_checkpoint(name)
    model: nn.Module = load_model(checkpoint)
    expected, actual = str(loaded.bundle.drafter.fingerprint), fingerprint(checkpoint)
    if actual != expected:
        raise AdapterError(
            f"{name} has the weights {actual[:12]} and the drafter of "
            f"{loaded.bundle.path.name} {expected[:12]}",
            "give the checkpoint that it was exported from",
            fault="wrong_base",
        )
    return model


def _copied(tensor: torch.Tensor) -> npt.NDArray[np.generic]:
    array: npt.NDArray[np.generic] = tensor.detach().cpu().numpy().copy()
    return array
