"""Losses on the acceptance itself: a decision with distributions P and Q is accepted with sum min(P, Q)."""

from typing import Literal

import torch

from omnidraft.training.data.batch import TensorBatch
from omnidraft.training.objectives.divergence import divergence, log_distributions
from omnidraft.training.objectives.loss import Drafted, Objective, Term, Terms, check_choice

Kind = Literal["refusals", "log"]


class TrieAcceptance(Objective):
    """The acceptance of the decisions of the trie of all spellings, mixed with the KL.

    kind "refusals": 1 - a = TV(P, q), the share of decisions that are refused. kind "log": - log a. The loss
    is (1 - kl) times it plus kl times the KL of trie-kl; positions and weights are those of trie-kl. Mass
    that a distribution does not list is one option.
    """

    def __init__(self, kind: Kind = "refusals", kl: float = 0.0) -> None:
        super().__init__()
        self.kind: Kind = check_choice("kind", kind, Kind)
        self.kl = kl

    def forward(self, drafted: Drafted, batch: TensorBatch) -> Terms:
        trie = batch.trie
        listed, other = log_distributions(drafted.logits, trie)
        accepted = torch.minimum(listed.exp(), trie.probabilities).sum(dim=1)
        accepted = accepted + torch.minimum(other.exp(), trie.other)
        each = 1.0 - accepted if self.kind == "refusals" else -accepted.clamp_min(1e-6).log()
        each = (1.0 - self.kl) * each
        if self.kl > 0.0:
            each = each + self.kl * divergence(drafted.logits, trie, "forward")
        return {"acceptance": Term((trie.weights * each).sum(), trie.weights.sum())}
