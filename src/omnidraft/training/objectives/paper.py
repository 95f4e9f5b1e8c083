"""The paper's objective, omnidraft, and forward-kl: both compare direct-mapped tokens one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from omnidraft.errors import SettingError
from omnidraft.training.data.batch import TensorBatch
from omnidraft.training.objectives.divergence import (
    Direction,
    binary_divergence,
    divergence,
    masked,
    normalised,
)
from omnidraft.training.objectives.loss import (
    Objective,
    Term,
    Terms,
    check_choice,
    cross_entropy,
    size_of,
)

Intersection = Literal["other", "renormalise"]
NgramLoss = Literal["constant", "probability", "kl"]


class OmniDraft(Objective):
    """The paper's loss: L = L_DM + lambda L_ngram (arXiv 2507.02659; method section 5.1).

    L_DM = KL(q' || p) over direct-mapped target tokens, q' the drafter on the intersection of the
    vocabularies. L_ngram = - log q(d) over the draft tokens of n-grams, lambda = 0.2.
    """

    def __init__(
        self,
        factor: float = 0.2,
        direction: Direction = "reverse",
        intersection: Intersection = "other",
        ngram: NgramLoss = "constant",
    ) -> None:
        """
        Args:
            factor: lambda, at least 0.
            direction: of L_DM.
            intersection: what the mass outside the intersection does, which the paper leaves open. "other"
                gives both sides one bucket for it, "renormalise" divides both sides by the mass inside. A
                bare sum over the intersection could be lowered by moving q's mass out of it.
            ngram: what multiplies the loss of an n-gram t, written d_1..d_l.
                constant: factor.
                probability: factor * p(t), as in a point-wise KL, which differs from p(t) log(p(t) / q(t))
                by a constant.
                kl: factor times the whole KL of the event "t comes", p log(p / q) + (1 - p) log((1 - p) /
                (1 - q)), with q the product of q(d_1)..q(d_l). The mean is then over n-grams, not over
                their draft tokens.

        Raises:
            SettingError: a negative factor, or an unknown choice.
        """
        super().__init__()
        if not factor >= 0.0:
            raise SettingError(f"factor {factor} of the n-gram loss is negative", "0.2 is the paper's")
        self.factor = factor
        self.direction: Direction = check_choice("direction", direction, Direction)
        self.intersection: Intersection = check_choice("intersection", intersection, Intersection)
        self.ngram: NgramLoss = check_choice("ngram", ngram, NgramLoss)

    def forward(self, logits: Tensor, batch: TensorBatch) -> Terms:
        each = direct_divergence(logits, batch, self.direction, self.intersection)
        ngram = self._event_term if self.ngram == "kl" else self._ngram_term
        return {"direct": Term(each.sum(), size_of(each)), "ngram": ngram(logits, batch)}

    def _ngram_term(self, logits: Tensor, batch: TensorBatch) -> Term:
        labels, tokens = batch.labels, batch.tokens
        losses = cross_entropy(logits, batch)  # [M]
        inside = tokens.lengths[labels.tokens] > 1
        weights = torch.ones_like(losses)
        if self.ngram == "probability":
            weights = tokens.probabilities[labels.tokens].nan_to_num(0.0).to(losses.dtype)
        return Term((weights * losses)[inside].sum(), inside.sum(), self.factor)

    def _event_term(self, logits: Tensor, batch: TensorBatch) -> Term:
        labels, tokens = batch.labels, batch.tokens
        losses = cross_entropy(logits, batch)  # [M]
        # log q of each whole n-gram: the sum over its draft tokens.
        log_q = torch.zeros_like(tokens.probabilities, dtype=losses.dtype).index_add(
            0, labels.tokens, -losses
        )
        known = (tokens.lengths > 1) & tokens.probabilities.isfinite()
        each = binary_divergence(tokens.probabilities[known], log_q[known])
        return Term(each.sum(), known.sum(), self.factor)


class ForwardKl(Objective):
    """KL(p' || q') over direct-mapped target tokens, both on the intersection of the vocabularies.

    This is the usual distillation of models with one vocabulary (Hinton et al., arXiv 1503.02531), restricted
    to the tokens that both vocabularies have.
    """

    def __init__(self, intersection: Intersection = "renormalise") -> None:
        super().__init__()
        self.intersection: Intersection = check_choice("intersection", intersection, Intersection)

    def forward(self, logits: Tensor, batch: TensorBatch) -> Terms:
        each = direct_divergence(logits, batch, "forward", self.intersection)
        return {"direct": Term(each.sum(), size_of(each))}


def direct_divergence(
    logits: Tensor, batch: TensorBatch, direction: Direction, intersection: Intersection
) -> Tensor:
    """KL between p and q on the intersection, at each direct-mapped target token, [D]."""
    distributions = masked(batch.direct, batch.tokens.direct)
    if intersection == "renormalise":
        return divergence(logits, normalised(distributions), direction, batch.direct_drafts)
    outside = (1.0 - distributions.weights).clamp_min(0.0)
    complete = normalised(replace(distributions, other=distributions.other + outside))
    return divergence(logits, complete, direction)
