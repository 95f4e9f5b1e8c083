"""The objectives of training a drafter, by name; method sections 5.1, 5.2 and 8.

An objective turns rows of drafter logits into terms; a term is a sum over places and how many places (or how
much weight) it is over. The trainer divides by the count of the whole batch, whichever process holds which
part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from omnidraft.errors import SettingError
from omnidraft.training.data.batch import TensorBatch
from omnidraft.training.objectives.names import OBJECTIVES


@dataclass(frozen=True)
class Drafted:
    """What the drafter computed for a batch.

    Attributes:
        logits: [R, draft vocab], at temperature 1, whatever was sampled with.
        hidden: last hidden states of the same rows [R, width], for the objectives that need them.
    """

    logits: Tensor
    hidden: Tensor | None = None


@dataclass(frozen=True)
class Term:
    """One part of a loss: factor * sum / count."""

    sum: Tensor
    count: Tensor
    factor: float = 1.0


Terms = dict[str, Term]


class Objective(nn.Module, ABC):
    """A loss with its own parameters, if it has any.

    Attributes:
        needs_hidden: whether `Drafted.hidden` must be there.
    """

    needs_hidden = False

    @abstractmethod
    def forward(self, drafted: Drafted, batch: TensorBatch) -> Terms:
        """The terms of the loss, always the same names; a term without places has count 0."""


def loss_of(terms: Terms, counts: dict[str, Tensor] | None = None) -> Tensor:
    """The loss: sum over terms of factor * sum / count, a term without places adding nothing.

    Args:
        terms: of one process.
        counts: of all processes; the terms' own when None.
    """
    parts = [
        term.factor * term.sum / torch.clamp_min(term.count if counts is None else counts[name], 1e-6)
        for name, term in terms.items()
    ]
    return torch.stack(parts).sum()


def cross_entropy(drafted: Drafted, batch: TensorBatch) -> Tensor:
    """- log q(d_j) of every draft token of the responses, [M]; row j predicts token j."""
    log_q = torch.log_softmax(drafted.logits[batch.labels.rows], dim=1)
    return -log_q.gather(1, batch.labels.ids[:, None])[:, 0]


def objective(name: str, **settings: Any) -> Objective:
    """An objective by its name.

    Args:
        name: one of `OBJECTIVES`.
        settings: of that objective; see its class.

    Raises:
        SettingError: there is none of that name, or it has no such setting.
    """
    if name not in OBJECTIVES:
        raise SettingError(f'objective "{name}" is unknown', f"use one of {', '.join(OBJECTIVES)}")
    module, _, kind = OBJECTIVES[name].partition(".")
    made: Callable[..., Objective] = getattr(import_module(f"omnidraft.training.objectives.{module}"), kind)
    try:
        return made(**settings)
    except TypeError as error:
        raise SettingError(f"objective {name} does not take these settings: {error}") from None
