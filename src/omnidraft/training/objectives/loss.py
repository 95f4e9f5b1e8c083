"""What an objective is: a module that turns rows of drafter logits into the terms of a loss.

The trainer divides a term by the count of the whole batch, so it does not matter how the batch is divided.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeVar, get_args

import torch
from torch import Tensor, nn

from omnidraft.errors import SettingError
from omnidraft.training.data.batch import TensorBatch

Word = TypeVar("Word", bound=str)


@dataclass(frozen=True)
class Term:
    """One part of a loss: factor * sum / count."""

    sum: Tensor
    count: Tensor
    factor: float = 1.0


Terms = dict[str, Term]


class Objective(nn.Module, ABC):
    """A loss of the drafter's logits."""

    @abstractmethod
    def forward(self, logits: Tensor, batch: TensorBatch) -> Terms:
        """The terms of the loss, always under the same names; a term without places has count 0.

        Args:
            logits: [R, draft vocab], at temperature 1, independent of the temperature of sampling.
        """


def loss_of(terms: Terms, counts: dict[str, Tensor] | None = None) -> Tensor:
    """The loss: sum over terms of factor * sum / count; a term without places adds 0.

    Args:
        terms: the terms of one process.
        counts: the counts of all processes together; the terms' own when None.
    """
    parts = [
        term.factor * term.sum / torch.clamp_min(term.count if counts is None else counts[name], 1e-6)
        for name, term in terms.items()
    ]
    return torch.stack(parts).sum()


def cross_entropy(logits: Tensor, batch: TensorBatch) -> Tensor:
    """- log q(d_j) of every draft token of the responses, [M]; row j predicts token j."""
    log_q = torch.log_softmax(logits[batch.labels.rows], dim=1)
    return -log_q.gather(1, batch.labels.ids[:, None])[:, 0]


def size_of(values: Tensor) -> Tensor:
    """The length of a tensor's first dimension as the count of a term, on the tensor's device."""
    return torch.tensor(float(len(values)), device=values.device)


def check_choice(name: str, value: Word, choices: object) -> Word:
    """The value of a setting, checked.

    Args:
        value: what the caller gave.
        choices: a `Literal` type that lists the permitted values.

    Raises:
        SettingError: the value is not one of the choices.
    """
    if value not in get_args(choices):
        raise SettingError(f'{name} "{value}" is unknown', f"use one of {', '.join(get_args(choices))}")
    return value
