"""The objectives: each turns rows of drafter logits into the terms of a loss (method section 5).

An objective is a function of the drafter's logits [R, draft vocab] at temperature 1, independent of the
temperature of sampling, and a batch. It returns its terms always under the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from omnidraft.training.data.batch import TensorBatch
from omnidraft.training.objectives.divergence import divergence, log_distributions, normalised

NGRAM_FACTOR = 0.2  # lambda of the paper


@dataclass(frozen=True)
class Term:
    """One part of a loss: factor * sum / count; a term without places has count 0."""

    sum: Tensor
    count: Tensor
    factor: float = 1.0


Terms = dict[str, Term]
Objective = Callable[[Tensor, TensorBatch], Terms]


def loss_of(terms: Terms) -> Tensor:
    """The loss: sum over terms of factor * sum / count; a term without places adds 0."""
    return torch.stack([term.factor * term.sum / term.count.clamp_min(1e-6) for term in terms.values()]).sum()


def trie_kl(logits: Tensor, batch: TensorBatch) -> Terms:
    """KL between the target's distribution in draft tokens and the drafter's, at every draft position.

    L = sum_u w_u KL(P(.|u) || q(.|u)) / sum_u w_u            (method section 5.2)

    P(.|u) and its OTHER bucket come from learning/positions/draft_targets.py; w_u is the target's mass that
    the drafter can write. The direction is forward, for three reasons. By the chain rule the sum over the
    positions of a spelling is the KL of whole target tokens, so n-grams need no term of their own. The KL is
    finite where the target's distribution has zeros and where its row was cut. And it bounds the acceptance,
    1 - TV, from below (Pinsker).
    """
    each = divergence(logits, batch.trie, "forward")  # [N]
    return {"trie": Term((batch.trie.weights * each).sum(), batch.trie.weights.sum())}


def trie_acceptance(logits: Tensor, batch: TensorBatch) -> Terms:
    """The total variation between the target's distribution in draft tokens and the drafter's.

    L = sum_u w_u (1 - a_u) / sum_u w_u,   a_u = sum over x of min(P(x|u), q(x|u))

    Speculative sampling at temperature 1 accepts a draft token with probability a_u where every option is
    listed, and at most that where several tokens share the option OTHER. So this is the share that it
    refuses; a KL only bounds it (Pinsker). For greedy decoding trie-kl learns faster. Positions and weights
    w_u are those of trie-kl.
    """
    trie = batch.trie
    listed, other = log_distributions(logits, trie)
    accepted = torch.minimum(listed.exp(), trie.probabilities).sum(dim=1)
    accepted = accepted + torch.minimum(other.exp(), trie.other)
    return {"acceptance": Term((trie.weights * (1.0 - accepted)).sum(), trie.weights.sum())}


def omnidraft_dm(logits: Tensor, batch: TensorBatch) -> Terms:
    """The paper's loss without n-grams: L_DM (arXiv 2507.02659; method section 5.1).

    L_DM = KL(q' || p) over direct-mapped target tokens, q' the drafter on the intersection of the
    vocabularies. What the mass outside the intersection does is left open by the paper: here both sides have
    one bucket for it, because a bare sum over the intersection could be lowered by moving q's mass out of it.
    """
    outside = (1.0 - batch.direct.weights).clamp_min(0.0)
    whole = normalised(replace(batch.direct, other=batch.direct.other + outside))
    return {"direct": _mean(divergence(logits, whole, "reverse"))}


def omnidraft(logits: Tensor, batch: TensorBatch) -> Terms:
    """The paper's loss: L = L_DM + lambda L_ngram (arXiv 2507.02659; method section 5.1).

    L_ngram = - log q(d) over the draft tokens of n-grams, lambda = 0.2.
    """
    losses = cross_entropy(logits, batch)  # [M]
    ngram = Term(losses[batch.in_ngrams].sum(), batch.in_ngrams.sum(), NGRAM_FACTOR)
    return {**omnidraft_dm(logits, batch), "ngram": ngram}


def forward_kl(logits: Tensor, batch: TensorBatch) -> Terms:
    """KL(p' || q') over direct-mapped target tokens, both renormalised on the intersection.

    This is the usual distillation of models with one vocabulary (Hinton et al., arXiv 1503.02531), restricted
    to the tokens that both vocabularies have.
    """
    return {"direct": _mean(divergence(logits, normalised(batch.direct), "forward", batch.direct_drafts))}


def cross_entropy(logits: Tensor, batch: TensorBatch) -> Tensor:
    """- log q(d_j) of every draft token of the responses, [M]; row j predicts token j."""
    log_q = torch.log_softmax(logits[batch.label_rows], dim=1)
    return -log_q.gather(1, batch.label_ids[:, None])[:, 0]


def _mean(values: Tensor) -> Term:
    return Term(values.sum(), torch.tensor(float(len(values)), device=values.device))
