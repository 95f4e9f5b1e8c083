"""A learner that torch does the arithmetic of: the trainer, on a checkpoint of the bundle's drafter."""

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
    """A drafter's LoRA tensors in training, and its head where there is one; see `runtime.learner.learner`.

    The weights are the checkpoint's, whatever form they have in the bundle: an adapter fits every one.
    """

    def __init__(self, drafter: str | nn.Module, weights: LoadedBundle, options: TrainerOptions) -> None:
        """
        Args:
            drafter: its checkpoint (directory or hub id), of which the fingerprint is compared with the
                bundle's; or a model, which is changed and of which the caller knows that it is the bundle's.
            weights: of the bundle.
            options: with a LoRA rank.

        Raises:
            AdapterError: `wrong_base`, another drafter than the bundle's; `no_sites`, it takes no adapters.
            CheckpointError: there is no such checkpoint.
            SettingError: no LoRA rank, or one that does not serve.
        """
        if options.lora_rank is None:
            raise SettingError("a session takes LoRA adapters and the options have no rank", "32 is usual")
        if options.head == "interleaved":
            raise SettingError(
                "a head that is trained interleaved has a replay of its own, as an adaptation has",
                "train it jointly",
            )
        entry, vocab_map = weights.bundle.drafter, weights.vocab_map
        if entry.lora is None or entry.fingerprint is None:
            raise AdapterError(
                f"the drafter of {weights.bundle.path.name} takes no adapters",
                "export it again without --no-lora",
                fault="no_sites",
            )
        self._lora, self._base = entry.lora, entry.fingerprint
        self._tokenizers = vocab_map.draft_fingerprint, vocab_map.target_fingerprint
        model = drafter if isinstance(drafter, nn.Module) else _load(drafter, weights)
        self._trainer = Trainer(model, options)

    @property
    def rate(self) -> float:
        """Of AdamW's next steps."""
        return float(self._trainer.optimizer.param_groups[0]["lr"])

    @rate.setter
    def rate(self, rate: float) -> None:
        self._trainer.set_rate(rate)

    def learn(self, responses: Sequence[Aligned]) -> Learned:
        """One step on one batch of at least one response."""
        found = self._trainer.step(responses)
        return Learned(found.step, found.loss, found.terms, found.norm, found.skipped)

    def adapter(self) -> Adapter:
        """What was learned so far, as a session takes it.

        Raises:
            AdapterError: a value is not finite, or the bundle's model is another one.
        """
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        head = None if self._trainer.head is None else self._trainer.head.head
        return to_adapter(self._trainer.model, self._lora, self._base, self._tokenizers, now, head)

    def state(self) -> Arrays:
        """Parameters, AdamW's moments and counts; copies."""
        found: Arrays = {"counts": np.array([getattr(self._trainer, c) for c in _COUNTS], dtype=np.int64)}
        for name, parameter in self._parameters.items():
            found[f"parameter.{name}"] = _copied(parameter)
            moments = self._trainer.optimizer.state.get(parameter, {})
            for key in (*_MOMENTS, "step"):
                if key in moments:
                    found[f"{key}.{name}"] = _copied(moments[key])
        return found

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from a `state()` as if there had been no break.

        Raises:
            SettingError: it is of another learner; nothing was taken over.
        """
        parameters, optimizer = self._parameters, self._trainer.optimizer
        self._check(state)
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(torch.from_numpy(state[f"parameter.{name}"]))
                keys = [key for key in (*_MOMENTS, "step") if f"{key}.{name}" in state]
                optimizer.state[parameter] = {
                    # AdamW counts on the CPU, beside the moments' device.
                    key: torch.from_numpy(state[f"{key}.{name}"].copy()).to(
                        "cpu" if key == "step" else parameter.device
                    )
                    for key in keys
                }
        self._trainer.steps, self._trainer.skipped = (int(c) for c in state["counts"])

    @property
    def _parameters(self) -> dict[str, nn.Parameter]:
        """All that is trained, by name."""
        head = {} if self._trainer.head is None else self._trainer.head.parameters
        return {**self._trainer.parameters, **head}

    def _check(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        wanted = {f"parameter.{n}": tuple(p.shape) for n, p in self._parameters.items()}
        found = {n: a.shape for n, a in state.items() if n.startswith("parameter.")}
        if wanted.keys() != found.keys() or "counts" not in state:
            raise SettingError(
                f"the state of a learner has {len(found)} tensors and this one trains {len(wanted)} others",
                "go on with the settings that it was begun with",
            )
        for name, shape in wanted.items():
            if found[name] != shape:
                raise SettingError(
                    f"the state of a learner has {name} of shape {list(found[name])}, not {list(shape)}",
                    "go on with the LoRA rank that it was begun with",
                )


def _load(checkpoint: str, weights: LoadedBundle) -> nn.Module:
    """The bundle's drafter in float32."""
    from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint
    from omnidraft.checkpoints.fingerprint import fingerprint

    found = read_checkpoint(checkpoint)
    model: nn.Module = load_model(found)
    wanted, given = str(weights.bundle.drafter.fingerprint), fingerprint(found)
    if given != wanted:
        raise AdapterError(
            f"{checkpoint} has the weights {given[:12]} and the drafter of "
            f"{weights.bundle.path.name} {wanted[:12]}",
            "give the checkpoint that it was exported from",
            fault="wrong_base",
        )
    return model


def _copied(tensor: torch.Tensor) -> npt.NDArray[np.generic]:
    found: npt.NDArray[np.generic] = tensor.detach().cpu().numpy().copy()
    return found
