"""DSKD: the two models are compared in the space of each, by attention between them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.losses.chunks import View
from benchmarks.losses.likelihoods import likelihood, mean
from omnidraft.training.objectives.losses import Terms

CE_FACTOR, KD_FACTOR = 0.5, 0.5


class DualSpace(nn.Module):
    """Dual-space distillation with cross-model attention (Zhang et al., arXiv 2406.17328).

    For an answer of m draft tokens and n target tokens, e being embeddings before and after a place, h last
    hidden states, N(x) = x / std(x):

    Q = [e_before; e_after] W_q   [m, 2D]        K = N([e'_before; e'_after])   [n, 2D]
    S = Q K^T / sqrt(2D)          [m, n]
    to the drafter's space: h1 = softmax(S) (N(h') + N(e'_after)) W_v, p1 = softmax(h1 E^T)
    to the target's space:  h2 = softmax(S^T) h W_s, q2 = softmax(h2 E'^T)

    L = 0.5 CE(q) + 0.5 (CE(p1) + KL(sg p1, q) + KL(p, q2)): E and E' are fixed, W_* are learned along.

    This benchmark's simplifications: attention sees the answer and not the prompt; KL(p, q2) is over the ids
    that some row of the batch lists, with p renormalised there, because the whole head of the target takes
    ten times as long; temperatures are 1; p1 counts only where its likeliest token is right, as in the
    paper's code.
    """

    def __init__(self, width: int, target_width: int) -> None:
        super().__init__()
        self.query = nn.Linear(2 * width, 2 * target_width, bias=False)
        self.value = nn.Linear(target_width, width, bias=False)
        self.to_target = nn.Linear(width, target_width, bias=False)

    def forward(self, view: View) -> Terms:
        batch, chunks = view.batch, view.chunks
        answers = batch.sequences[batch.label_rows]
        states, moved = [], []
        for answer in range(int(chunks.answers.max()) + 1):
            to_draft, to_target = self._across(view, answers == answer, chunks.answers == answer)
            states.append(to_draft)
            moved.append(to_target)
        logits = torch.cat(states) @ view.embedding.detach().T  # [M, V]
        log_p1 = functional.log_softmax(logits, dim=1)
        fitted = -log_p1.gather(1, batch.label_ids[:, None])[:, 0]
        log_q = functional.log_softmax(view.logits[batch.label_rows], dim=1)
        p1 = log_p1.detach()
        right = p1.argmax(dim=1) == batch.label_ids
        near = (p1.exp() * (p1 - log_q)).sum(dim=1)[right]
        ce = likelihood(view)["likelihood"]
        return {
            "likelihood": type(ce)(ce.sum, ce.count, CE_FACTOR),
            "projected": mean(fitted, KD_FACTOR),
            "draft space": mean(near, KD_FACTOR),
            "target space": mean(self._target_space(view, torch.cat(moved)), KD_FACTOR),
        }

    def _across(self, view: View, drafts: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The target's states in the drafter's space, [m, width], and the drafter's in the target's."""
        batch, chunks = view.batch, view.chunks
        rows = batch.label_rows[drafts]
        before = batch.input_ids[batch.sequences[rows], batch.positions[rows]]
        own = torch.cat([view.embedding[before], view.embedding[batch.label_ids[drafts]]], dim=1).detach()
        read, written = (view.target_embedding[each[targets]] for each in (chunks.before, chunks.tokens))
        keys = _scaled(torch.cat([read, written], dim=1))
        scores = self.query(own) @ keys.T / keys.shape[1] ** 0.5
        values = self.value(_scaled(chunks.hidden[targets]) + _scaled(written))
        return scores.softmax(dim=1) @ values, scores.T.softmax(dim=1) @ self.to_target(view.states[rows])

    def _target_space(self, view: View, states: Tensor) -> Tensor:
        """KL(p, q2) at each target token, over the ids that the batch lists."""
        chunks = view.chunks
        listed = torch.unique(chunks.ids[chunks.ids >= 0])
        log_q = functional.log_softmax(states @ view.target_embedding[listed].T, dim=1)
        at = torch.searchsorted(listed, chunks.ids.clamp_min(0))
        p = chunks.p / chunks.p.sum(dim=1, keepdim=True).clamp_min(1e-8)
        divergences: Tensor = (torch.special.xlogy(p, p) - p * log_q.gather(1, at)).sum(dim=1)
        return divergences


def _scaled(values: Tensor) -> Tensor:
    return values / values.std().clamp_min(1e-6)
