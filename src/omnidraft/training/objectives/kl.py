"""Objectives that compare distributions token by token: trie-kl, omnidraft and forward-kl."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from omnidraft.errors import SettingError
from omnidraft.training.data.batch import DistributionTensors, TensorBatch
from omnidraft.training.objectives.divergence import Direction, chosen, divergence, normalised
from omnidraft.training.objectives.objectives import Drafted, Objective, Term, Terms, cross_entropy

Intersection = Literal["other", "renormalise"]
NgramLoss = Literal["constant", "probability", "kl"]
Word = TypeVar("Word", bound=str)


class TrieKl(Objective):
    """KL between the target's distribution in the drafter's vocabulary and the drafter's, at every draft position.

    L = sum_u w_u KL(P(.|u) || q(.|u)) / sum_u w_u            (method section 5.2)

    P(.|u) is `draft_distribution`'s, with its OTHER; w_u the target's mass that the drafter can write. Forward by
    default: by the chain rule the sum over the positions of a spelling is the KL of whole target tokens, so
    n-grams need no term of their own; it is finite where the target's distribution has zeros and where its row was
    cut; and 1 - TV, the acceptance, is bounded by it (Pinsker). `direction="reverse"` is there to compare.
    """

    def __init__(self, direction: Direction = "forward") -> None:
        super().__init__()
        self.direction: Direction = _checked("direction", direction, Direction)

    def forward(self, drafted: Drafted, batch: TensorBatch) -> Terms:
        each = divergence(drafted.logits, batch.trie, self.direction)  # [N]
        return {"trie": Term((batch.trie.weights * each).sum(), batch.trie.weights.sum())}


class OmniDraft(Objective):
    """The paper's loss: L = L_DM + lambda L_ngram (arXiv 2507.02659; method section 5.1).

    L_DM = KL(q' || p) over direct-mapped target tokens, q' the drafter on the intersection of the
    vocabularies. L_ngram = - log q(d) over the draft tokens of n-grams, lambda = 0.2.

    The paper leaves open what the mass outside the intersection does. `intersection="other"` (default) gives
    both sides one bucket for it, "renormalise" divides both by what is inside; a bare sum would be lowered by
    pushing q out of the intersection.

    `ngram` says what stands in place of lambda for each n-gram t, written d_1..d_l:
        constant: factor. probability: factor * p(t), as in a point-wise KL, which differs from p(t) log(p(t)
        / q(t)) by a constant. kl: factor times the whole KL of the event "t comes", p log(p / q) + (1 - p)
        log((1 - p) / (1 - q)) with q the product of q(d_1)..q(d_l); this one is over n-grams, not over their
        draft tokens.
    """

    def __init__(
        self,
        factor: float = 0.2,
        direction: Direction = "reverse",
        intersection: Intersection = "other",
        ngram: NgramLoss = "constant",
    ) -> None:
        super().__init__()
        if not factor >= 0.0:
            raise SettingError(f"factor {factor} of the n-gram loss is negative", "0.2 is the paper's")
        self.factor = factor
        self.direction: Direction = _checked("direction", direction, Direction)
        self.intersection: Intersection = _checked("intersection", intersection, Intersection)
        self.ngram: NgramLoss = _checked("ngram", ngram, NgramLoss)

    def forward(self, drafted: Drafted, batch: TensorBatch) -> Terms:
        each = direct_divergence(drafted, batch, self.direction, self.intersection)
        direct = Term(each.sum(), torch.tensor(float(len(each)), device=each.device))
        return {"direct": direct, "ngram": self._ngram(drafted, batch)}

    def _ngram(self, drafted: Drafted, batch: TensorBatch) -> Term:
        labels, tokens = batch.labels, batch.tokens
        losses = cross_entropy(drafted, batch)  # [M]
        if self.ngram == "kl":
            # log q of each whole n-gram: the sum over its draft tokens.
            log_q = torch.zeros_like(tokens.probabilities, dtype=losses.dtype).index_add(
                0, labels.tokens, -losses
            )
            known = (tokens.lengths > 1) & tokens.probabilities.isfinite()
            each = binary_divergence(tokens.probabilities[known], log_q[known])
            return Term(each.sum(), known.sum(), self.factor)
        inside = tokens.lengths[labels.tokens] > 1
        weights = torch.ones_like(losses)
        if self.ngram == "probability":
            weights = tokens.probabilities[labels.tokens].nan_to_num(0.0).to(losses.dtype)
        return Term((weights * losses)[inside].sum(), inside.sum(), self.factor)


class ForwardKl(Objective):
    """KL(p' || q') over direct-mapped target tokens, both on the intersection of the vocabularies.

    The usual distillation where vocabularies agree (Hinton et al., arXiv 1503.02531), cut to where they do.
    """

    def __init__(self, intersection: Intersection = "renormalise") -> None:
        super().__init__()
        self.intersection: Intersection = _checked("intersection", intersection, Intersection)

    def forward(self, drafted: Drafted, batch: TensorBatch) -> Terms:
        each = direct_divergence(drafted, batch, "forward", self.intersection)
        return {"direct": Term(each.sum(), torch.tensor(float(len(each)), device=each.device))}


def direct_divergence(
    drafted: Drafted, batch: TensorBatch, direction: Direction, intersection: Intersection
) -> Tensor:
    """KL between p and q on the intersection, at each direct-mapped target token, [D]."""
    distributions = chosen(batch.direct, batch.tokens.direct)
    if intersection == "renormalise":
        return divergence(drafted.logits, normalised(distributions), direction, batch.direct_drafts)
    outside = (1.0 - distributions.weights).clamp_min(0.0)
    whole: DistributionTensors = normalised(replace(distributions, other=distributions.other + outside))
    return divergence(drafted.logits, whole, direction)


def binary_divergence(p: Tensor, log_q: Tensor) -> Tensor:
    """p log(p / q) + (1 - p) log((1 - p) / (1 - q)), elementwise, from p and log q."""
    p = p.to(log_q.dtype).clamp(1e-8, 1.0 - 1e-8)
    return p * (p.log() - log_q) + (1.0 - p) * (torch.log1p(-p) - log1m_exp(log_q))


def log1m_exp(log_q: Tensor) -> Tensor:
    """log(1 - exp(log_q)) for log_q < 0, exact near both ends; a probability of 1 counts as 1 - 1e-7."""
    log_q = log_q.clamp_max(-1e-7)
    near_one = log_q > -0.693
    # Both branches get arguments that are safe, or the one not taken would make the gradient NaN.
    close = torch.log(-torch.expm1(torch.where(near_one, log_q, -0.5)))
    far = torch.log1p(-torch.exp(torch.where(near_one, -1.0, log_q)))
    return torch.where(near_one, close, far)


def _checked(name: str, value: Word, kind: object) -> Word:
    if value not in get_args(kind):
        raise SettingError(f'{name} "{value}" is unknown', f"use one of {', '.join(get_args(kind))}")
    return value
