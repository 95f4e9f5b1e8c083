"""Divergences between rows of drafter logits and distributions over some draft tokens and an OTHER bucket.

q's OTHER is the mass of all draft tokens that the distribution does not list. With it both sides sum to 1, so
no gradient moves the drafter's mass out of the listed tokens (method section 5.1). A distribution that was
cut makes the divergence coarser but does not bias it: merging outcomes never raises a divergence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from omnidraft.training.data.batch import DistributionTensors

Direction = Literal["forward", "reverse"]
_FLOOR = 1e-8  # smallest probability under a logarithm: a reverse KL would be infinite otherwise
_BARRED = -80.0  # logit, relative to the row's largest, of an excluded token: gradients stay finite


def log_distributions(
    rows: Tensor, distributions: DistributionTensors, allowed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """log q of each distribution's ids and of its OTHER, shapes [N, K] and [N].

    An id of -1 (padding) has the log q of an excluded token.

    Args:
        rows: logits of the drafter at temperature 1, [R, draft vocab].
        distributions: their ids and rows are evaluated.
        allowed: draft tokens over which q is renormalised, [draft vocab]; all when None.
    """
    logits = rows.index_select(0, distributions.rows)  # [N, V]
    bar = logits.detach().amax(dim=1, keepdim=True) + _BARRED
    if allowed is not None:
        logits = torch.where(allowed, logits, bar)
    total = logits.logsumexp(dim=1, keepdim=True)
    padded = torch.cat([logits, bar], dim=1)  # the last column is for padding
    at = torch.where(distributions.ids < 0, logits.shape[1], distributions.ids)
    listed = padded.gather(1, at) - total
    others = padded.scatter(1, at, bar.expand(at.shape)).logsumexp(dim=1)
    return listed, others - total[:, 0]


def divergence(
    rows: Tensor, distributions: DistributionTensors, direction: Direction, allowed: Tensor | None = None
) -> Tensor:
    """KL of each distribution and its row, in nats, [N].

    forward: sum P log(P / q). reverse: sum q log(q / P), P no smaller than 1e-8.

    Args:
        rows: logits [R, draft vocab].
        distributions: probabilities and OTHER of each sum to 1.
    """
    listed, others = log_distributions(rows, distributions, allowed)
    log_q = torch.cat([listed, others[:, None]], dim=1)  # [N, K + 1]
    p = torch.cat([distributions.probabilities, distributions.other[:, None]], dim=1)
    log_p = p.clamp_min(_FLOOR).log()
    if direction == "forward":
        return (torch.where(p > 0, p, 0.0) * (log_p - log_q)).sum(dim=1)
    present = torch.cat(
        [distributions.ids >= 0, torch.ones_like(distributions.ids[:, :1], dtype=torch.bool)], dim=1
    )
    return torch.where(present, log_q.exp() * (log_q - log_p), 0.0).sum(dim=1)


def normalised(distributions: DistributionTensors) -> DistributionTensors:
    """The distributions divided by their sums; a distribution of sum 0 becomes all OTHER."""
    total = distributions.probabilities.sum(dim=1) + distributions.other
    safe = total.clamp_min(_FLOOR)
    return replace(
        distributions,
        probabilities=distributions.probabilities / safe[:, None],
        other=torch.where(total > _FLOOR, distributions.other / safe, torch.ones_like(total)),
    )
