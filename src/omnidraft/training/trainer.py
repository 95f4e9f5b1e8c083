"""Train a drafter on aligned responses: AdamW, one step a batch, all weights or LoRA.

The defaults are the paper's. A GPU is used where there is one. A step whose loss or gradient is not finite
changes nothing and is counted. Parameters and moments are float32, also where the forward pass computes in
bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.training.data.batch import TensorBatch, collate
from omnidraft.training.lora import add_lora
from omnidraft.training.objectives import objective as objective_of
from omnidraft.training.objectives.losses import loss_of
from omnidraft.training.trainer_options import TrainerOptions
from omnidraft.training.training_state import read_state, write_state


@dataclass(frozen=True)
class StepReport:
    """One step.

    Attributes:
        loss: over the whole batch.
        terms: the mean of each term, without its factor.
        skipped: whether loss or gradient was not finite; such a step changes nothing.
    """

    step: int
    loss: float
    terms: dict[str, float]
    norm: float
    skipped: bool


class Trainer:
    """A drafter in training.

    Attributes:
        model: the drafter, with LoRA if the options have a rank.
        steps: number of steps so far.
        skipped: number of those steps that changed nothing.
    """

    def __init__(self, model: nn.Module, options: TrainerOptions | None = None) -> None:
        """
        Args:
            model: a transformers decoder; its weights become float32 and are changed by training.
            options: the paper's when None.

        Raises:
            SettingError: the objective is unknown, or the LoRA rank cannot be used.
        """
        self.options = options or TrainerOptions()
        self.objective = objective_of(self.options.objective)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.float().to(self._device).train()
        if self.options.lora_rank is not None:
            add_lora(self.model, self.options.lora_rank, self.options.lora_alpha, seed=self.options.seed)
        self.parameters: dict[str, nn.Parameter] = {
            f"model.{name}": parameter
            for name, parameter in self.model.named_parameters()
            if parameter.requires_grad
        }
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(),
            lr=self.options.learning_rate,
            betas=(0.9, 0.999),
            weight_decay=self.options.weight_decay,
        )
        self.steps = self.skipped = 0

    def step(self, responses: Sequence[Aligned]) -> StepReport:
        """Learn from one batch.

        Raises:
            SettingError: there are no responses.
        """
        if not responses:
            raise SettingError("a step was given no responses", "give at least one")
        self.optimizer.zero_grad(set_to_none=True)
        batch = collate(responses).to(self._device)
        terms = self.objective(self._logits(batch), batch)
        total = loss_of(terms)
        total.backward()  # type: ignore[no-untyped-call]
        loss = float(total.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.options.clip_norm))
        finite = bool(np.isfinite(loss) and np.isfinite(norm))
        if finite:
            self.optimizer.step()
        self.steps += 1
        self.skipped += not finite
        means = {name: float(term.sum.detach() / term.count.clamp_min(1e-6)) for name, term in terms.items()}
        return StepReport(self.steps, loss, means, norm, not finite)

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next steps."""
        self.optimizer.param_groups[0]["lr"] = rate

    def save(self, path: Path, responses: int) -> None:
        """Write the state of the training; the file is replaced atomically.

        Args:
            responses: number of responses of an epoch; `resume` compares it.

        Raises:
            SettingError: the file cannot be written.
        """
        counts = {"steps": self.steps, "skipped": self.skipped, "responses": responses}
        write_state(path, self.parameters, self.optimizer, asdict(self.options), counts)

    def resume(self, path: Path, responses: int) -> None:
        """Continue from a file that `save` wrote, with the same results as an uninterrupted training.

        Args:
            responses: number of responses of an epoch.

        Raises:
            SettingError: the file is of other options, responses or another model, or cannot be read.
        """
        counts = read_state(path, self.parameters, self.optimizer, asdict(self.options), responses)
        self.steps, self.skipped = counts["steps"], counts["skipped"]

    def _logits(self, batch: TensorBatch) -> Tensor:
        positions = torch.arange(batch.first, batch.input_ids.shape[1], device=self._device)
        with self._autocast():
            out: Any = self.model(input_ids=batch.input_ids, use_cache=False, logits_to_keep=positions)
        logits: Tensor = out.logits[batch.sequences, batch.positions - batch.first].float()
        return logits

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.options.precision == "fp32":
            return nullcontext()
        return torch.autocast(self._device.type, torch.bfloat16)
