"""trie-acceptance: the share of drafted tokens that sampling refuses, at every draft position."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from omnidraft.errors import SettingError
from omnidraft.training.data.batch import TensorBatch
from omnidraft.training.objectives.divergence import divergence, log_distributions
from omnidraft.training.objectives.loss import Objective, Term, Terms, check_choice

Kind = Literal["refusals", "log"]


class TrieAcceptance(Objective):
    """The total variation between the target's distribution in draft tokens and the drafter's.

    L = sum_u w_u (1 - a_u) / sum_u w_u,   a_u = sum over x of min(P(x|u), q(x|u))

    Speculative sampling at temperature 1 accepts a draft token with probability a_u where every option is
    listed, and at most that where several tokens share the option OTHER. So this is the share that it
    refuses; a KL only bounds it (Pinsker). For greedy decoding trie-kl learns faster. Positions and weights
    w_u are those of trie-kl.

    Args:
        kind: "log" has - log a_u in place of 1 - a_u; below a_u = 1e-6 it has no gradient.
        kl: share of trie-kl that is mixed in, from 0 to 1.

    Raises:
        SettingError: a kind or a share that is none.
    """

    def __init__(self, kind: Kind = "refusals", kl: float = 0.0) -> None:
        super().__init__()
        self.kind: Kind = check_choice("kind", kind, Kind)
        if not 0.0 <= kl <= 1.0:
            raise SettingError(f"share {kl} of trie-kl is not in 0..1", "0 is none of it")
        self.kl = kl

    def forward(self, logits: Tensor, batch: TensorBatch) -> Terms:
        trie = batch.trie
        listed, other = log_distributions(logits, trie)
        accepted = torch.minimum(listed.exp(), trie.probabilities).sum(dim=1)
        accepted = accepted + torch.minimum(other.exp(), trie.other)
        each = 1.0 - accepted if self.kind == "refusals" else -accepted.clamp_min(1e-6).log()
        if self.kl > 0.0:
            each = (1.0 - self.kl) * each + self.kl * divergence(logits, trie, "forward")
        return {"acceptance": Term((trie.weights * each).sum(), trie.weights.sum())}
