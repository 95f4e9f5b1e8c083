"""Divergences between a row of drafter logits and a law that lists some draft tokens and an OTHER bucket.

q's OTHER is the mass of all draft tokens that the law does not list. With it both sides sum to 1, so nothing
pushes the drafter's mass out of what is listed (method section 5.1), and a law that was cut costs no bias
beyond its own coarseness: merging outcomes never raises a divergence.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from omnidraft.training.data.batch import DistributionTensors

Direction = Literal["forward", "reverse"]
_FLOOR = 1e-8  # for a probability of 0 under a logarithm: a reverse KL would be infinite
_BARRED = -80.0  # logit, from the row's largest, of a token that is taken out: gradients stay finite


def log_laws(rows: Tensor, laws: DistributionTensors, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """log q of each law's ids and of its OTHER, shapes [N, K] and [N]; fillers have log q of a barred token.

    Args:
        rows: logits of the drafter at temperature 1, [R, draft vocab].
        laws: whose ids and rows are asked for.
        allowed: draft tokens over which q is renormalised, [draft vocab]; all when None.
    """
    wanted = rows.index_select(0, laws.rows)  # [N, V]
    bar = wanted.detach().amax(dim=1, keepdim=True) + _BARRED
    if allowed is not None:
        wanted = torch.where(allowed, wanted, bar)
    total = wanted.logsumexp(dim=1, keepdim=True)
    padded = torch.cat([wanted, bar], dim=1)  # the last column takes the fillers
    at = torch.where(laws.ids < 0, wanted.shape[1], laws.ids)
    listed = padded.gather(1, at) - total
    others = padded.scatter(1, at, bar.expand(at.shape)).logsumexp(dim=1)
    return listed, others - total[:, 0]


def divergence(
    rows: Tensor, laws: DistributionTensors, direction: Direction, allowed: Tensor | None = None
) -> Tensor:
    """KL of each law and its row, in nats, [N].

    forward: sum P log(P / q). reverse: sum q log(q / P), P no smaller than 1e-8.

    Args:
        rows: logits [R, draft vocab].
        laws: probabilities and OTHER of each sum to 1.
        direction: which way.
        allowed: see `log_laws`.
    """
    listed, others = log_laws(rows, laws, allowed)
    log_q = torch.cat([listed, others[:, None]], dim=1)  # [N, K + 1]
    p = torch.cat([laws.probabilities, laws.other[:, None]], dim=1)
    log_p = p.clamp_min(_FLOOR).log()
    if direction == "forward":
        return (torch.where(p > 0, p, 0.0) * (log_p - log_q)).sum(dim=1)
    real = torch.cat([laws.ids >= 0, torch.ones_like(laws.ids[:, :1], dtype=torch.bool)], dim=1)
    return torch.where(real, log_q.exp() * (log_q - log_p), 0.0).sum(dim=1)


def normalised(laws: DistributionTensors) -> DistributionTensors:
    """The same laws with probabilities and OTHER of sum 1; a law without mass becomes all OTHER."""
    total = laws.probabilities.sum(dim=1) + laws.other
    safe = total.clamp_min(_FLOOR)
    return DistributionTensors(
        laws.rows,
        laws.ids,
        laws.probabilities / safe[:, None],
        torch.where(total > _FLOOR, laws.other / safe, torch.ones_like(total)),
        laws.weights,
    )


def chosen(laws: DistributionTensors, mask: Tensor) -> DistributionTensors:
    """Those of the laws where the mask [N] says so."""
    return DistributionTensors(
        *(t[mask] for t in (laws.rows, laws.ids, laws.probabilities, laws.other, laws.weights))
    )
