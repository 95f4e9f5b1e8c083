"""dskd: dual-space distillation with cross-model attention (Zhang et al., arXiv 2406.17328)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omnidraft.errors import SettingError
from omnidraft.training.data.batch import TensorBatch
from omnidraft.training.objectives.objectives import Drafted, Objective, Term, Terms, cross_entropy


class Dskd(Objective):
    """Both models' hidden states are compared in each one's own output space.

    With x_i, y_i the input and the next token of a place, e their embeddings, h last hidden states, N(.)
    division by the standard deviation, s the drafter and t the target; attention within a response:

        Q = W_q [N(e_s(x)); N(e_s(y))]   K = [N(e_t(x)); N(e_t(y))]   A = Q K^T / sqrt(2 D_t)
        t -> s: h' = softmax(A) V,  V = W_ts (N(h_t) + N(e_t(y))),  distribution r = softmax(h' H_s)   (H_s without
        gradient)
        s -> t: h" = softmax(A^T) W_st(h_s),  distribution o = softmax(h" H_t)
        L = CE(q) + CE(r) + KL(r without gradient || q) + KL(p || o)

    W_q, W_ts and W_st are parameters of this objective; the trainer learns them with the drafter. The
    target's embeddings and head are constants, and its hidden states come with the responses
    (`Aligned.target_hidden`).
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
            draft_embeddings, draft_head: the drafter's modules, which stay its own.
            target_embeddings, target_head: the target's weights, [target vocab, target width] each.
            seed: of the projections' beginning.

        Raises:
            SettingError: one of them is missing.
        """
        super().__init__()
        given = draft_embeddings, draft_head, target_embeddings, target_head
        if draft_embeddings is None or draft_head is None or target_embeddings is None or target_head is None:
            missing = sum(x is None for x in given)
            raise SettingError(
                f"dskd needs embeddings and head of both models and {missing} are missing",
                "give draft_embeddings, draft_head, target_embeddings and target_head",
            )
        # Held in a tuple: they are no parameters of this objective.
        self._drafter: tuple[nn.Module, nn.Module] = draft_embeddings, draft_head
        self._target = target_embeddings.detach(), target_head.detach()
        narrow, wide = _weight(draft_embeddings).shape[1], target_embeddings.shape[1]
        generator = torch.Generator().manual_seed(seed)
        self.query = _projection(2 * narrow, 2 * wide, generator)
        self.to_drafter = _projection(wide, narrow, generator)
        self.to_target = _projection(narrow, wide, generator)

    def forward(self, drafted: Drafted, batch: TensorBatch) -> Terms:
        tokens, labels = batch.tokens, batch.labels
        if drafted.hidden is None or tokens.hidden is None:
            raise SettingError(
                "dskd needs hidden states of both models", "align responses with target_hidden"
            )
        embed, head = self._drafter
        places = labels.rows
        read = batch.input_ids[batch.sequences[places], batch.positions[places]]
        drafts = torch.cat([_scaled(embed(read)), _scaled(embed(labels.ids))], dim=1).detach()
        embeddings, target_head = (w.to(drafts) for w in self._target)
        following = _scaled(embeddings[tokens.ids])
        targets = torch.cat([_scaled(embeddings[tokens.before.clamp_min(0)]), following], dim=1)
        scores = self.query(drafts) @ targets.T / targets.shape[1] ** 0.5  # [M, T]
        same = batch.sequences[places][:, None] == tokens.sequences[None]
        scores = scores.masked_fill(~same, -1e4)
        target_hidden = tokens.hidden.to(drafts)
        seen = torch.softmax(scores, dim=1) @ self.to_drafter(_scaled(target_hidden) + following)
        log_r = torch.log_softmax(seen @ _weight(head).detach().to(seen).T, dim=1)
        log_q = torch.log_softmax(drafted.logits[places], dim=1)
        writable = same.any(dim=0)
        shown = (torch.softmax(scores, dim=0).T @ self.to_target(drafted.hidden[places]))[
            writable
        ]  # [T, wide]
        log_o = torch.log_softmax(shown @ target_head.T, dim=1)
        log_p = torch.log_softmax(target_hidden[writable] @ target_head.T, dim=1)
        losses, count = cross_entropy(drafted, batch), torch.tensor(float(len(places)), device=log_q.device)
        guessed = -log_r.gather(1, labels.ids[:, None]).sum()
        r = log_r.detach()
        return {
            "likelihood": Term(losses.sum(), count),
            "projected": Term(guessed, count),
            "drafter": Term((r.exp() * (r - log_q)).sum(), count),
            "target": Term((log_p.exp() * (log_p - log_o)).sum(), writable.sum()),
        }


def _projection(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(outputs, inputs, generator=generator) / inputs**0.5)
    return layer


def _scaled(values: Tensor) -> Tensor:
    return values / values.std(dim=-1, keepdim=True).clamp_min(1e-6)


def _weight(module: nn.Module) -> Tensor:
    found = module.weight
    assert isinstance(found, Tensor)
    return found
