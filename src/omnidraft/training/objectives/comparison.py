"""Objectives from the literature, for comparison: uld, alm, vocagnolm and dskd (method section 8).

None of them needs a common vocabulary. They use this project's alignment: every target token is a chunk of
its own, because the drafter reads the spelling of that token.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omnidraft.errors import SettingError
from omnidraft.training.data.batch import TensorBatch
from omnidraft.training.objectives.divergence import log1m_exp
from omnidraft.training.objectives.loss import Drafted, Objective, Term, Terms, cross_entropy, size_of


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

    def forward(self, drafted: Drafted, batch: TensorBatch) -> Terms:
        tokens = batch.tokens
        q = torch.softmax(drafted.logits[tokens.rows], dim=1).sort(dim=1, descending=True).values  # [T, V]
        p = tokens.top
        width = min(p.shape[1], q.shape[1])
        tails = (p[:, width:].sum(dim=1) + tokens.rest - q[:, width:].sum(dim=1)).abs()
        if bool((tokens.rest == 0).all()):  # whole distributions: one side is zeros beyond the shorter one
            tails = p[:, width:].sum(dim=1) + q[:, width:].sum(dim=1)
        distance = (p[:, :width] - q[:, :width]).abs().sum(dim=1) + tails
        losses = cross_entropy(drafted, batch)
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

    def forward(self, drafted: Drafted, batch: TensorBatch) -> Terms:
        tokens = batch.tokens
        losses = cross_entropy(drafted, batch)
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

    def forward(self, drafted: Drafted, batch: TensorBatch) -> Terms:
        tokens, labels = batch.tokens, batch.labels
        losses = cross_entropy(drafted, batch)
        spans = torch.zeros(len(tokens.ids), dtype=losses.dtype, device=losses.device)
        spans = spans.index_add(0, labels.tokens, losses.detach())
        teacher = -tokens.probabilities.to(losses.dtype).clamp_min(1e-8).log()
        behind = (spans >= teacher) | ~tokens.probabilities.isfinite()
        weighted = behind[labels.tokens].to(losses.dtype) * losses
        return {"likelihood": Term(weighted.sum(), size_of(losses))}


class Dskd(Objective):
    """Dual-space distillation with cross-model attention (Zhang et al., arXiv 2406.17328).

    Both models' hidden states are compared in the output space of each model. With x_i, y_i the input and the
    next token of a place, e their embeddings, h last hidden states, N(.) division by the standard deviation,
    s the drafter and t the target; attention within a response:

        Q = W_q [N(e_s(x)); N(e_s(y))]   K = [N(e_t(x)); N(e_t(y))]   A = Q K^T / sqrt(2 D_t)
        t -> s: h' = softmax(A) V,  V = W_ts (N(h_t) + N(e_t(y))),  r = softmax(h' H_s)  (no gradient of H_s)
        s -> t: h" = softmax(A^T) W_st(h_s),  o = softmax(h" H_t)
        L = CE(q) + CE(r) + KL(r || q) + KL(p || o)                         (no gradient of r in KL(r || q))

    r and o are distributions over draft and target tokens. W_q, W_ts and W_st are parameters of this
    objective; the trainer learns them with the drafter. The target's embeddings and head are constants, and
    its hidden states come with the responses (`Aligned.target_hidden`).
    """

    needs_hidden = True

    def __init__(
        self,
        draft_embeddings: nn.Module | None = None,
        draft_head: nn.Module | None = None,
        target_embeddings: Tensor | None = None,
        target_head: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        """
        Args:
            draft_embeddings: the drafter's module; it does not become part of this objective.
            draft_head: likewise.
            target_embeddings: the target's weights, [target vocab, target width].
            target_head: likewise, of the same shape.
            seed: of the initial projections.

        Raises:
            SettingError: one of the first four is missing.
        """
        super().__init__()
        parts = draft_embeddings, draft_head, target_embeddings, target_head
        if draft_embeddings is None or draft_head is None or target_embeddings is None or target_head is None:
            missing = sum(part is None for part in parts)
            raise SettingError(
                f"dskd needs embeddings and head of both models and {missing} are missing",
                "give draft_embeddings, draft_head, target_embeddings and target_head",
            )
        # In a tuple, so that torch does not count them as parameters of this objective.
        self._drafter: tuple[nn.Module, nn.Module] = draft_embeddings, draft_head
        self._target = target_embeddings.detach(), target_head.detach()
        narrow, wide = _weight(draft_embeddings).shape[1], target_embeddings.shape[1]
        generator = torch.Generator().manual_seed(seed)
        self.query = _projection(2 * narrow, 2 * wide, generator)
        self.to_drafter = _projection(wide, narrow, generator)
        self.to_target = _projection(narrow, wide, generator)

    def forward(self, drafted: Drafted, batch: TensorBatch) -> Terms:
        if drafted.hidden is None or batch.tokens.hidden is None:
            raise SettingError(
                "dskd needs hidden states of both models", "align responses with target_hidden"
            )
        scores, same, following = self._attention(batch)
        target_hidden = batch.tokens.hidden.to(scores)
        projected = torch.softmax(scores, dim=1) @ self.to_drafter(_scaled(target_hidden) + following)
        writable = same.any(dim=0)
        weights = torch.softmax(scores, dim=0).T  # [T, M]
        shown = (weights @ self.to_target(drafted.hidden[batch.labels.rows]))[writable]  # [T, wide]
        return {
            **self._drafter_terms(drafted, batch, projected),
            "target": self._target_term(target_hidden[writable], shown, writable.sum()),
        }

    def _attention(self, batch: TensorBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Scores A [M, T], which places are of one response [M, T], and N(e_t(y)) [T, wide]."""
        tokens, labels = batch.tokens, batch.labels
        places, embed = labels.rows, self._drafter[0]
        read = batch.input_ids[batch.sequences[places], batch.positions[places]]
        drafts = torch.cat([_scaled(embed(read)), _scaled(embed(labels.ids))], dim=1).detach()
        embeddings = self._target[0].to(drafts)
        following = _scaled(embeddings[tokens.ids])
        targets = torch.cat([_scaled(embeddings[tokens.before.clamp_min(0)]), following], dim=1)
        scores = self.query(drafts) @ targets.T / targets.shape[1] ** 0.5
        same = batch.sequences[places][:, None] == tokens.sequences[None]
        return scores.masked_fill(~same, -1e4), same, following

    def _drafter_terms(self, drafted: Drafted, batch: TensorBatch, projected: Tensor) -> Terms:
        """CE(q), CE(r) and KL(r || q), with r from the projected states h' [M, narrow]."""
        labels, head = batch.labels, self._drafter[1]
        log_r = torch.log_softmax(projected @ _weight(head).detach().to(projected).T, dim=1)
        log_q = torch.log_softmax(drafted.logits[labels.rows], dim=1)
        losses, count, r = cross_entropy(drafted, batch), size_of(labels.rows), log_r.detach()
        return {
            "likelihood": Term(losses.sum(), count),
            "projected": Term(-log_r.gather(1, labels.ids[:, None]).sum(), count),
            "drafter": Term((r.exp() * (r - log_q)).sum(), count),
        }

    def _target_term(self, hidden: Tensor, shown: Tensor, count: Tensor) -> Term:
        """KL(p || o) from the target's own states and the drafter's projected ones, [T, wide] each."""
        head = self._target[1].to(hidden)
        log_o = torch.log_softmax(shown @ head.T, dim=1)
        log_p = torch.log_softmax(hidden @ head.T, dim=1)
        return Term((log_p.exp() * (log_p - log_o)).sum(), count)


def _projection(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(outputs, inputs, generator=generator) / inputs**0.5)
    return layer


def _scaled(values: Tensor) -> Tensor:
    return values / values.std(dim=-1, keepdim=True).clamp_min(1e-6)


def _weight(module: nn.Module) -> Tensor:
    weight = module.weight
    assert isinstance(weight, Tensor)
    return weight
