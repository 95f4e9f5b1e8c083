"""Divergences between a row of drafter logits and a distribution that lists some draft tokens and an OTHER bucket.

q's OTHER is the mass of all draft tokens that the distribution does not list. With it both sides sum to 1, so nothing
pushes the drafter's mass out of what is listed (method section 5.1), and a distribution that was cut costs no bias
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


def log_distributions(
    rows: Tensor, distributions: DistributionTensors, allowed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """log q of each distribution's ids and of its OTHER, shapes [N, K] and [N]; fillers have log q of a barred token.

    Args:
        rows: logits of the drafter at temperature 1, [R, draft vocab].
        distributions: whose ids and rows are asked for.
        allowed: draft tokens over which q is renormalised, [draft vocab]; all when None.
    """
    wanted = rows.index_select(0, distributions.rows)  # [N, V]
    bar = wanted.detach().amax(dim=1, keepdim=True) + _BARRED
    if allowed is not None:
        wanted = torch.where(allowed, wanted, bar)
    total = wanted.logsumexp(dim=1, keepdim=True)
    padded = torch.cat([wanted, bar], dim=1)  # the last column takes the fillers
    at = torch.where(distributions.ids < 0, wanted.shape[1], distributions.ids)
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
        direction: which way.
        allowed: see `log_distributions`.
    """
    listed, others = log_distributions(rows, distributions, allowed)
    log_q = torch.cat([listed, others[:, None]], dim=1)  # [N, K + 1]
    p = torch.cat([distributions.probabilities, distributions.other[:, None]], dim=1)
    log_p = p.clamp_min(_FLOOR).log()
    if direction == "forward":
        return (torch.where(p > 0, p, 0.0) * (log_p - log_q)).sum(dim=1)
    real = torch.cat(
        [distributions.ids >= 0, torch.ones_like(distributions.ids[:, :1], dtype=torch.bool)], dim=1
    )
    return torch.where(real, log_q.exp() * (log_q - log_p), 0.0).sum(dim=1)


def normalised(distributions: DistributionTensors) -> DistributionTensors:
    """The same distributions with probabilities and OTHER of sum 1; a distribution without mass becomes all OTHER."""
    total = distributions.probabilities.sum(dim=1) + distributions.other
    safe = total.clamp_min(_FLOOR)
    return DistributionTensors(
        distributions.rows,
        distributions.ids,
        distributions.probabilities / safe[:, None],
        torch.where(total > _FLOOR, distributions.other / safe, torch.ones_like(total)),
        distributions.weights,
    )


def chosen(distributions: DistributionTensors, mask: Tensor) -> DistributionTensors:
    """Those of the distributions where the mask [N] says so."""
    return DistributionTensors(
        *(
            t[mask]
            for t in (
                distributions.rows,
                distributions.ids,
                distributions.probabilities,
                distributions.other,
                distributions.weights,
            )
        )
    )
