"""The product's trainer with a loss of this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from benchmarks.losses.chunks import Chunks, Labelled, View, chunks_of
from benchmarks.losses.table import loss_named
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.training.data.batch import TensorBatch
from omnidraft.training.objectives import OBJECTIVES
from omnidraft.training.objectives.losses import Terms
from omnidraft.training.trainer import StepReport, Trainer
from omnidraft.training.trainer_options import TrainerOptions


def trainer_for(
    name: str, drafter: PreTrainedModel, target: PreTrainedModel, options: TrainerOptions
) -> LossTrainer | ObjectiveTrainer:
    """A trainer of a drafter by the name of its loss."""
    if name in OBJECTIVES:
        return ObjectiveTrainer(drafter, options)
    return LossTrainer(name, drafter, target, options)


class ObjectiveTrainer(Trainer):
    """The product's trainer, given labelled answers."""

    def learn(self, answers: Sequence[Labelled]) -> StepReport:
        """One step."""
        return self.step([each.aligned for each in answers])


class LossTrainer(Trainer):
    """A trainer whose loss also reads hidden states, and may have matrices that are learned along."""

    def __init__(
        self, name: str, drafter: PreTrainedModel, target: PreTrainedModel, options: TrainerOptions
    ) -> None:
        super().__init__(drafter, options)
        torch.manual_seed(options.seed)
        self._drafter = drafter
        self._embedding = _embedding(target).detach().float()
        self._loss = loss_named(name, drafter.config.hidden_size, target.config.hidden_size)
        if isinstance(self._loss, nn.Module):
            own = {f"loss.{each}": parameter for each, parameter in self._loss.named_parameters()}
            self.parameters.update(own)
            self.optimizer.add_param_group({"params": list(own.values())})
        self.objective = self._terms
        self._chunks: Chunks | None = None
        self._states: Tensor | None = None

    def learn(self, answers: Sequence[Labelled]) -> StepReport:
        """One step."""
        self._chunks = chunks_of(answers)
        return self.step([each.aligned for each in answers])

    def step(self, responses: Sequence[Aligned]) -> StepReport:
        assert self._chunks is not None, "call `learn`"
        return super().step(responses)

    def _logits(self, batch: TensorBatch) -> Tensor:
        out: Any = self._drafter(input_ids=batch.input_ids, use_cache=False, output_hidden_states=True)
        self._states = out.hidden_states[-1][batch.sequences, batch.positions]
        logits: Tensor = out.logits[batch.sequences, batch.positions]
        return logits

    def _terms(self, logits: Tensor, batch: TensorBatch) -> Terms:
        assert self._chunks is not None and self._states is not None
        view = View(logits, self._states, _embedding(self._drafter), self._embedding, batch, self._chunks)
        return self._loss(view)


def _embedding(model: PreTrainedModel) -> Tensor:
    inputs: Any = model.get_input_embeddings()
    weight: Tensor = inputs.weight
    return weight
