"""Losses of probabilities alone: likelihood, uld, alm and vocagnolm."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.losses.chunks import View
from omnidraft.training.objectives.losses import Term, Terms, cross_entropy

ULD_FACTOR, ALM_TEMPERATURE, VOCAGNOLM_SHARE = 1.5, 100.0, 0.4


def likelihood(view: View) -> Terms:
    """L = mean of - log q(d_j) over the draft tokens of the answers: the part that most losses here share."""
    return {"likelihood": mean(cross_entropy(view.logits, view.batch))}


def uld(view: View) -> Terms:
    """Universal logit distillation (Boizard et al., arXiv 2402.12030).

    L = CE + 1.5 mean_t sum_i |p_(i) - q_(i)|, both distributions sorted descending and padded with zeros.

    The paper pairs place t of one model with place t of the other; here the two places before a target token
    are paired. Of a row that was cut, the listed entries are compared one by one and the two tails as sums,
    which is a lower bound of the distance.
    """
    chunks = view.chunks
    q = torch.softmax(view.logits[chunks.rows], dim=1).sort(dim=1, descending=True).values  # [T, V]
    p = chunks.p
    width = min(p.shape[1], q.shape[1])
    tails = (p[:, width:].sum(dim=1) + chunks.rest - q[:, width:].sum(dim=1)).abs()
    distance = (p[:, :width] - q[:, :width]).abs().sum(dim=1) + tails
    return {**likelihood(view), "sorted": mean(distance, ULD_FACTOR)}


def alm(view: View) -> Terms:
    """Approximate likelihood matching (Minixhofer et al., arXiv 2503.20083).

    L = mean over chunks of KL(Bernoulli(p^(1/tau)), Bernoulli(q^(1/tau))), tau = 100, where p and q are the
    probabilities that the models give to a chunk of text.

    A chunk is one target token and its spelling, the finest alignment there is. The paper's removal of chunks
    whose ends bias a model, and its approximations for chunks that no boundary ends, are left out. A
    probability counts as 1 - 1e-6 at most.
    """
    chunks = view.chunks
    spelled = chunks.lengths > 0
    scale = 1.0 / ALM_TEMPERATURE
    log_q = (_log_q(view)[spelled] * scale).clamp_max(-1e-6)
    log_p = (chunks.log_p[spelled] * scale).clamp_max(-1e-6)
    p = log_p.exp()
    each = p * (log_p - log_q) + (1.0 - p) * (_log_other(log_p) - _log_other(log_q))
    return {"chunks": mean(each)}


def vocagnolm(view: View) -> Terms:
    """Vocabulary-agnostic teacher guided modelling (Shin et al., arXiv 2503.19123).

    L = sum_j w_j CE_j / sum_j w_j. Lexical alignment maps draft token j to the target tokens that cover its
    characters, here the one that it helps to write. w_j is 1 for the 40 % of the draft tokens whose loss most
    exceeds that of the target's token, else 0.

    The share of 40 % and a weight of 0 or 1 are this benchmark's reading of the paper. Its rules for tokens
    that map to none or to several are not needed.
    """
    losses = cross_entropy(view.logits, view.batch)
    excess = losses.detach() + view.chunks.log_p[view.chunks.owners]
    count = max(1, round(VOCAGNOLM_SHARE * len(losses)))
    return {"likelihood": mean(losses[excess.topk(count).indices])}


def mean(values: Tensor, factor: float = 1.0) -> Term:
    """The term of a mean."""
    return Term(values.sum(), values.new_tensor(float(len(values))), factor)


def _log_q(view: View) -> Tensor:
    """Log-probability of the spelling of each chunk, [T]."""
    losses = cross_entropy(view.logits, view.batch)
    return losses.new_zeros(len(view.chunks.lengths)).index_add(0, view.chunks.owners, -losses)


def _log_other(log_p: Tensor) -> Tensor:
    """log(1 - p) of log p < 0."""
    return torch.log(-torch.expm1(log_p))
