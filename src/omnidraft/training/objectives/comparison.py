"""Objectives from the literature, for comparison: uld, alm and vocagnolm (method section 8).

None of them needs a common vocabulary. They use this project's alignment: every target token is a chunk of
its own, because the drafter reads the spelling of that token.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omnidraft.errors import SettingError
from omnidraft.training.data.batch import TensorBatch
from omnidraft.training.objectives.divergence import log1m_exp
from omnidraft.training.objectives.loss import Objective, Term, Terms, cross_entropy, size_of


class Uld(Objective):
    """Universal logit distillation (Boizard et al., arXiv 2402.12030).

    L = CE + factor * sum_i |p_(i) - q_(i)|, both distributions sorted descending and zero-padded, at every
    place where a target token begins. Of a row that was cut, the listed m are compared one by one and the
    tails as two sums, which is a lower bound of the whole distance. Sorted distributions do not tell which
    token is which; CE does.
    """

    def __init__(self, factor: float = 1.5) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, logits: Tensor, batch: TensorBatch) -> Terms:
        tokens = batch.tokens
        q = torch.softmax(logits[tokens.rows], dim=1).sort(dim=1, descending=True).values  # [T, V]
        p = tokens.top
        width = min(p.shape[1], q.shape[1])
        tails = (p[:, width:].sum(dim=1) + tokens.rest - q[:, width:].sum(dim=1)).abs()
        if bool((tokens.rest == 0).all()):  # whole distributions: one side is zeros beyond the shorter one
            tails = p[:, width:].sum(dim=1) + q[:, width:].sum(dim=1)
        distance = (p[:, :width] - q[:, :width]).abs().sum(dim=1) + tails
        losses = cross_entropy(logits, batch)
        return {
            "likelihood": Term(losses.sum(), size_of(losses)),
            "sorted": Term(distance.sum(), size_of(distance), self.factor),
        }


class Alm(Objective):
    """Approximate likelihood matching (Minixhofer et al., arXiv 2503.20083).

    A chunk is a span between common boundaries; here it is one target token t and its spelling.
    L = BCE(p(t)^(1/tau), q(spelling)^(1/tau)), q the product over the spelling, tau = 100.
    """

    def __init__(self, tau: float = 100.0) -> None:
        super().__init__()
        if not tau > 0.0:
            raise SettingError(f"tau {tau} is not above 0", "100 is the paper's")
        self.tau = tau

    def forward(self, logits: Tensor, batch: TensorBatch) -> Terms:
        tokens = batch.tokens
        losses = cross_entropy(logits, batch)
        log_q = torch.zeros(len(tokens.ids), dtype=losses.dtype, device=losses.device)
        log_q = log_q.index_add(0, batch.labels.tokens, -losses) / self.tau  # [T]
        known = (tokens.lengths > 0) & tokens.probabilities.isfinite() & (tokens.probabilities > 0)
        p = tokens.probabilities[known].to(losses.dtype).pow(1.0 / self.tau)
        each = -(p * log_q[known] + (1.0 - p) * log1m_exp(log_q[known]))
        return {"chunks": Term(each.sum(), known.sum())}


class VocAgnoLm(Objective):
    """Vocabulary-agnostic teacher guided modelling (Shin et al., arXiv 2503.19123).

    Every draft token is mapped to the target tokens that cover its characters, here the one target token that
    it helps to write, and its cross-entropy is weighted by the losses of both models there:
    L = sum_j w_j CE_j / number of draft tokens, w_j = 1 where CE of the whole span >= the target's - log
    p(t), else 0: where the drafter is surer than the target, nothing is left to learn. (The threshold is
    this project's: a share of the batch's largest differences would depend on how a batch is split.)
    """

    def forward(self, logits: Tensor, batch: TensorBatch) -> Terms:
        tokens, labels = batch.tokens, batch.labels
        losses = cross_entropy(logits, batch)
        spans = torch.zeros(len(tokens.ids), dtype=losses.dtype, device=losses.device)
        spans = spans.index_add(0, labels.tokens, losses.detach())
        teacher = -tokens.probabilities.to(losses.dtype).clamp_min(1e-8).log()
        behind = (spans >= teacher) | ~tokens.probabilities.isfinite()
        weighted = behind[labels.tokens].to(losses.dtype) * losses
        return {"likelihood": Term(weighted.sum(), size_of(losses))}
