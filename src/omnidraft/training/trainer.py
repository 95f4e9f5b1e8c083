"""Train a drafter on aligned responses: AdamW, one step a batch, all weights or LoRA, one process or several.

The defaults are the paper's. A step whose loss or gradient is not finite changes nothing and is counted.
Parameters and moments are float32, also where the forward pass computes in bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.training.data.batch import TensorBatch, collate
from omnidraft.training.data.processes import Processes
from omnidraft.training.lora import add_lora
from omnidraft.training.objectives import objective as objective_of
from omnidraft.training.objectives.loss import Objective, loss_of
from omnidraft.training.trainer_options import TrainerOptions
from omnidraft.training.training_log import StepReport, open_log, progress_bar, write_report
from omnidraft.training.training_state import read_state, write_state

if TYPE_CHECKING:
    from accelerate import Accelerator


class Trainer:
    """A drafter in training.

    Attributes:
        model: the drafter, with LoRA if the options have a rank.
        steps: number of steps so far.
        skipped: number of those steps that changed nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        options: TrainerOptions | None = None,
        *,
        objective: Objective | None = None,
        accelerator: Accelerator | None = None,
    ) -> None:
        """
        Args:
            model: a transformers decoder; its weights become float32 and are changed by training.
            options: the paper's when None.
            objective: constructed from its name in the options when None.
            accelerator: if several processes train together; each process is given all responses.

        Raises:
            SettingError: the objective is unknown, or the LoRA rank cannot be used.
        """
        self.options = options or TrainerOptions()
        self._processes = Processes(accelerator)
        self._device = next(model.parameters()).device if accelerator is None else accelerator.device
        self.objective = objective_of(self.options.objective) if objective is None else objective
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
        self.steps = self.skipped = self._begun = 0

    def step(self, responses: Sequence[Aligned]) -> StepReport:
        """Learn from one batch; if several processes train, each calls this with the same responses.

        Raises:
            SettingError: there are no responses.
        """
        if not responses:
            raise SettingError("a step was given no responses", "give at least one")
        self.optimizer.zero_grad(set_to_none=True)
        mine = list(responses)[self._processes.share]
        means, loss = self._backward(mine or list(responses)[:1], idle=not mine)
        norm, finite = self._apply(loss)
        self.steps += 1
        self.skipped += not finite
        return StepReport(self.steps, loss, means, norm, not finite)

    def _apply(self, loss: float) -> tuple[float, bool]:
        """One step of the optimiser; returns the norm, and whether all was finite."""
        self._processes.sum_gradients(self.parameters.values())
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.options.clip_norm))
        finite = bool(np.isfinite(loss) and np.isfinite(norm))
        if finite:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm, finite

    def train(
        self,
        responses: Sequence[Aligned],
        *,
        log: Path | None = None,
        checkpoint: Path | None = None,
        checkpoint_every: int = 50,
        progress: bool = False,
    ) -> list[StepReport]:
        """One pass over the responses, in an order drawn from the seed; continues from its checkpoint.

        Args:
            responses: at least one.
            log: file of JSON lines, one a step; lines after the checkpoint's step are written again.
            checkpoint: file of this pass; read if it exists, written every `checkpoint_every` steps and at
                the end.
            checkpoint_every: number of steps.
            progress: show a bar.

        Returns:
            the reports of the steps of this call.

        Raises:
            SettingError: there are no responses, or the checkpoint is of other options, responses or
                another model, or cannot be read.
        """
        if not len(responses):
            raise SettingError("there are no responses to learn from", "give at least one")
        self._begun = self.steps
        if checkpoint is not None and checkpoint.exists():
            self.resume(checkpoint, len(responses))
        done = self.steps - self._begun
        order = np.random.default_rng(self.options.seed).permutation(len(responses))
        size, reports = self.options.batch_size, list[StepReport]()
        total = -(-len(responses) // size)
        with (
            open_log(log if self._processes.is_main else None, done) as lines,
            progress_bar(progress and self._processes.is_main, self.options.objective, total, done) as show,
        ):
            for at in range(done, total):
                self.set_rate(self.options.rate_at(at, total))
                report = self.step([responses[i] for i in order[at * size : (at + 1) * size]])
                reports.append(report)
                write_report(lines, report)
                show(report, self.skipped)
                if checkpoint is not None and ((at + 1) % checkpoint_every == 0 or at + 1 == total):
                    self.save(checkpoint, len(responses))
        return reports

    def set_rate(self, rate: float) -> None:
        """Set the drafter's learning rate; `train` sets it before each step."""
        self.optimizer.param_groups[0]["lr"] = rate

    def save(self, path: Path, responses: int = 0) -> None:
        """Write the state of the training; the file is replaced atomically.

        Args:
            responses: number of responses of the pass; `resume` compares it.

        Raises:
            SettingError: the file cannot be written.
        """
        if self._processes.is_main:
            counts = {
                "steps": self.steps,
                "skipped": self.skipped,
                "begun": self._begun,
                "responses": responses,
            }
            write_state(path, self.parameters, self.optimizer, asdict(self.options), counts)
        self._processes.wait()

    def resume(self, path: Path, responses: int = 0) -> None:
        """Continue from a file that `save` wrote, with the same results as an uninterrupted training.

        Args:
            responses: number of responses of the pass.

        Raises:
            SettingError: the file is of other options, responses or another model, or cannot be read.
        """
        counts = read_state(path, self.parameters, self.optimizer, asdict(self.options), responses)
        self.steps, self.skipped, self._begun = (counts[key] for key in ("steps", "skipped", "begun"))

    def _backward(self, responses: Sequence[Aligned], *, idle: bool) -> tuple[dict[str, float], float]:
        """Compute the gradients of this process's part of the loss."""
        batch = collate(responses).to(self._device)
        terms = self.objective(self._logits(batch), batch)
        keep = 0.0 if idle else 1.0
        local = torch.stack([torch.stack([t.sum.detach().float(), t.count.float()]) for t in terms.values()])
        summed = self._processes.summed(local * keep)  # [terms, 2]
        counts = {name: summed[i, 1] for i, name in enumerate(terms)}
        if not idle:
            loss_of(terms, counts).backward()  # type: ignore[no-untyped-call]
        means = {name: float(summed[i, 0] / summed[i, 1].clamp_min(1e-6)) for i, name in enumerate(terms)}
        return means, sum(term.factor * means[name] for name, term in terms.items())

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


def train(
    model: nn.Module, responses: Sequence[Aligned], options: TrainerOptions | None = None, **settings: Any
) -> Trainer:
    """Train a drafter in one pass over aligned responses.

    Args:
        settings: the keyword arguments of `Trainer.train`.

    Raises:
        SettingError: see `Trainer` and `Trainer.train`.
    """
    trainer = Trainer(model, options)
    trainer.train(responses, **settings)
    return trainer
