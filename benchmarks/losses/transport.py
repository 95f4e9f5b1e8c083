"""CoT2Align: optimal transport between the hidden states of both models along an answer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.losses.chunks import View
from benchmarks.losses.likelihoods import likelihood, mean
from omnidraft.training.objectives.losses import Terms

ENTROPY, ROUNDS, FACTOR = 0.1, 20, 0.5


class Transport(nn.Module):
    """The optimal transport of CoT2Align (Le et al., arXiv 2502.16806).

    X [m, d] are the drafter's states along an answer and Y [n, d] the target's times a learned matrix, both
    of mass 1 spread evenly:

    C = 1 - softmax over Y of X Y^T / sqrt(d)
    L = 0.5 CE + 0.5 sum over layers of <P, C>, P = argmin <P, C> - 0.1 H(P) with these masses

    `sequence` has the last hidden states, `layers` the embeddings, too. Sinkhorn's iteration stops after 20
    rounds, and the gradient passes through it.

    Left out: the paper's answers with a chain of thought, and the alignment of such an answer with a plain
    one, because the pair has only the target's own answers. Its weights of the parts are taken as one half.
    """

    def __init__(self, width: int, target_width: int, layers: bool) -> None:
        super().__init__()
        self.last = nn.Linear(target_width, width, bias=False)
        self.first = nn.Linear(target_width, width, bias=False) if layers else None

    def forward(self, view: View) -> Terms:
        batch, chunks = view.batch, view.chunks
        answers = batch.sequences[batch.label_rows]
        ce = likelihood(view)["likelihood"]
        terms = {"likelihood": type(ce)(ce.sum, ce.count, FACTOR)}
        pairs = {"last": (view.states[batch.label_rows], self.last(chunks.hidden))}
        if self.first is not None:
            read = view.target_embedding[chunks.tokens]
            pairs["first"] = view.embedding[batch.label_ids], self.first(read)
        for name, (own, others) in pairs.items():
            costs = [
                transported(attention_cost(own[answers == i], others[chunks.answers == i]))
                for i in range(int(chunks.answers.max()) + 1)
            ]
            terms[name] = mean(torch.stack(costs), FACTOR)
        return terms


def attention_cost(own: Tensor, others: Tensor) -> Tensor:
    """The cost of moving each own state to each other one, [m, n]."""
    scores: Tensor = own @ others.T / own.shape[1] ** 0.5
    return 1.0 - scores.softmax(dim=1)


def transported(cost: Tensor, entropy: float = ENTROPY, rounds: int = ROUNDS) -> Tensor:
    """<P, cost> of the plan P that Sinkhorn's iteration finds for even masses."""
    m, n = cost.shape
    kernel = (-cost / entropy).exp()
    right = cost.new_full((n,), 1.0)
    left = cost.new_full((m,), 1.0)
    for _ in range(rounds):
        left = 1.0 / m / (kernel @ right)
        right = 1.0 / n / (kernel.T @ left)
    moved: Tensor = left[:, None] * kernel * right * cost
    return moved.sum()
