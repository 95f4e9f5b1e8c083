"""A drafter's forward pass as its training graphs compute it: packed products with LoRA, plain attention.

The model is transformers' own; its products, embeddings and attention are ours, so that the frozen weights
can be inputs of a graph and each packed product is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from omnidraft.checkpoints.patched import swapped
from omnidraft.checkpoints.thin_model import ThinModel
from omnidraft.export.graph.markers import EMBEDDING, HEAD, MarkedSite
from omnidraft.runtime.bundle.train_step_entry import StepLayout

_NAME = "omnidraft_step"  # of our attention among transformers' kinds
Named = dict[str, Tensor]


@dataclass(frozen=True)
class Frozen:
    """The weights of a drafter that do not learn.

    Attributes:
        thin: the model. places: what its graph's weights are packed of.
        tied: whether the LM head reads the embedding; a quantised one has a weight of its own.
    """

    thin: ThinModel
    places: Sequence[MarkedSite]
    tied: bool

    def weights(self) -> Named:
        """Each weight [in, out] as in the drafter's graph, the embedding [vocab, hidden]; without values."""
        found = {}
        for place in self.places:
            rows, columns = place.parts[0].shape[1], sum(part.shape[0] for part in place.parts)
            shape = (columns, rows) if place.name == EMBEDDING else (rows, columns)
            found[place.name] = torch.empty(shape)  # never touched, so it takes no memory
        if self.tied:
            del found[HEAD]
        return found


def cut(vector: Tensor, layout: StepLayout) -> Named:
    """The tensors of a layout, views of one vector."""
    return {name: vector[start:end].view(shape) for name, (start, end), shape in layout.spans()}


class Forward:
    """The products of a drafter: packed as in its graph, each packed one computed once.

    Attributes:
        rows: positions b * L + l whose logits are wanted; all, in their own shape, when None.
    """

    def __init__(self, frozen: Frozen, given: Named, learning: Named, rows: Tensor | None = None) -> None:
        """
        Args:
            frozen: the drafter. given: its weights by name, and `lora_scale`.
            learning: the LoRA tensors by name.
        """
        self._frozen, self._given, self._learning, self.rows = frozen, given, learning, rows
        self._places = {
            part.name: (place, i) for place in frozen.places for i, part in enumerate(place.parts)
        }
        self._last: dict[str, tuple[Tensor, tuple[Tensor, ...]]] = {}

    @contextmanager
    def acting(self) -> Iterator[Any]:
        """Within it the model computes with these weights; gives the model."""
        thin = self._frozen.thin
        before = thin.model.config._attn_implementation
        thin.model.set_attn_implementation(_NAME)
        try:
            with (
                swapped(nn.Linear, "forward", lambda module, x: self.product(module, x)),
                swapped(nn.Embedding, "forward", lambda _, ids: self._given[EMBEDDING][ids]),
            ):
                yield thin.model
        finally:
            thin.model.set_attn_implementation(before)

    def product(self, module: Any, x: Tensor) -> Tensor:
        place, index = self._places[module.site]
        if place.name == HEAD:
            return self._head(module, x)
        if place.name not in self._last or self._last[place.name][0] is not x:
            self._last[place.name] = x, self._parts(place, x)
        return self._last[place.name][1][index]

    def _parts(self, place: MarkedSite, x: Tensor) -> tuple[Tensor, ...]:
        whole = x @ self._given[place.name]
        biases = [self._frozen.thin.stored[part.name].bias for part in place.parts]
        if biases[0] is not None:
            whole = whole + torch.cat([bias.float() for bias in biases if bias is not None])
        site = place.name.removesuffix(".weight")
        whole = whole + self._low_rank(site, x)
        return torch.split(whole, [part.shape[0] for part in place.parts], dim=-1)

    def _low_rank(self, site: str, x: Tensor) -> Tensor:
        """(x A) B of each part that learns, side by side."""
        heads = [name.removesuffix(".lora_a") for name in self._learning if name.endswith(".lora_a")]
        parts = [name for name in heads if name.rpartition(".")[0] == site]
        a, b = ([self._learning[f"{part}.lora_{half}"] for part in parts] for half in "ab")
        rows = torch.split(x @ torch.cat(a, dim=1), [each.shape[1] for each in a], dim=-1)
        return (
            torch.cat([row @ each for row, each in zip(rows, b, strict=True)], -1) * self._given["lora_scale"]
        )

    def _head(self, module: Any, x: Tensor) -> Tensor:
        rows = x if self.rows is None else x.flatten(0, 1).index_select(0, self.rows)
        weight = self._given[EMBEDDING].t() if self._frozen.tied else self._given[HEAD]
        logits = rows @ weight
        bias = self._frozen.thin.stored[module.site].bias
        return logits if bias is None else logits + bias.float()


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of one layer, causal where there is no mask.

    Args:
        query: [B, heads, L, head_dim].
        key, value: [B, kv_heads, keys, head_dim].
        mask: added to the scores, [B, 1, L, keys].
        scaling: factor of the scores.
        options: `sliding_window` and `softcap` are read, None where the layer has none.
    """
    key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    if softcap := options.get("softcap"):
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores + mask if mask is not None else _causal(scores, options.get("sliding_window"))
    return (scores.softmax(dim=-1) @ value).transpose(1, 2), None


def _causal(scores: Tensor, window: int | None) -> Tensor:
    at = torch.arange(scores.shape[2])
    behind = at[:, None] - at[None, :]
    seen = behind >= 0
    if window:
        seen = seen & (behind < window)
    return torch.where(seen, scores, torch.finfo(torch.float32).min)


ALL_ATTENTION_FUNCTIONS.register(_NAME, _attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, lambda *_, **__: None)
