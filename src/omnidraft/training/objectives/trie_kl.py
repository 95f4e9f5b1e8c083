"""trie-kl, the default objective: the KL of both models' distributions at every draft position."""

from __future__ import annotations

from torch import Tensor

from omnidraft.training.data.batch import TensorBatch
from omnidraft.training.objectives.divergence import Direction, divergence
from omnidraft.training.objectives.loss import Objective, Term, Terms, check_choice


class TrieKl(Objective):
    """KL between the target's distribution in draft tokens and the drafter's, at every draft position.

    L = sum_u w_u KL(P(.|u) || q(.|u)) / sum_u w_u            (method section 5.2)

    P(.|u) and its OTHER bucket come from learning/positions/draft_targets.py; w_u is the target's mass that
    the drafter can write. The direction is forward by default, for three reasons. By the chain rule the sum
    over the positions of a spelling is the KL of whole target tokens, so n-grams need no term of their own.
    The KL is finite where the target's distribution has zeros and where its row was cut. And it bounds the
    acceptance, 1 - TV, from below (Pinsker). `direction="reverse"` exists for comparison.
    """

    def __init__(self, direction: Direction = "forward") -> None:
        super().__init__()
        self.direction: Direction = check_choice("direction", direction, Direction)

    def forward(self, logits: Tensor, batch: TensorBatch) -> Terms:
        each = divergence(logits, batch.trie, self.direction)  # [N]
        return {"trie": Term((batch.trie.weights * each).sum(), batch.trie.weights.sum())}
