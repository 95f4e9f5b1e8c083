"""A drafter's forward pass in its training graphs: packed products with LoRA, plain attention.

The model is transformers' own; its products, embeddings and attention are replaced, so that the frozen
weights can be inputs of a graph and each packed product is computed once.
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

from omnidraft.checkpoints.thin_model import ThinModel, patched
from omnidraft.export.graph.markers import EMBEDDING, HEAD, MarkedSite
from omnidraft.runtime.bundle.train_step_entry import StepLayout

_NAME = "omnidraft_step"  # of our attention in transformers' registry
Named = dict[str, Tensor]


@dataclass(frozen=True)
class Frozen:
    """The weights of a drafter that do not learn."""

    thin: ThinModel  # the model
    sites: Sequence[MarkedSite]  # the weights of its graph, and the modules that are packed in each

    def weights(self) -> Named:
        """Each weight [in, out] as in the drafter's graph, the embedding [vocab, hidden]; without values."""
        weights = {}
        for site in self.sites:
            rows, columns = site.parts[0].shape[1], sum(part.shape[0] for part in site.parts)
            shape = (columns, rows) if site.name == EMBEDDING else (rows, columns)
            weights[site.name] = torch.empty(shape)  # not written, so it takes no memory
        if self.thin.tied:
            del weights[HEAD]
        return weights


def cut(vector: Tensor, layout: StepLayout) -> Named:
    """The tensors of a layout, as views of one vector."""
    return {name: vector[start:end].view(shape) for name, (start, end), shape in layout.spans()}


class Forward:
    """The products of a drafter, packed as in its graph; each packed product is computed once.

    Attributes:
        rows: positions b * L + l whose logits are computed.
    """

    def __init__(self, frozen: Frozen, inputs: Named, learning: Named, rows: Tensor) -> None:
        """

        Args:
            inputs: its weights by name, and `lora_scale`.
        """
        self._frozen, self._inputs, self._learning, self.rows = frozen, inputs, learning, rows
        self._sites = {part.name: (site, i) for site in frozen.sites for i, part in enumerate(site.parts)}
        self._last: dict[str, tuple[Tensor, tuple[Tensor, ...]]] = {}

    @contextmanager
    def acting(self) -> Iterator[Any]:
        """Within this context the model computes with these weights; yields the model."""
        thin = self._frozen.thin
        before = thin.model.config._attn_implementation
        thin.model.set_attn_implementation(_NAME)
        try:
            with (
                patched(nn.Linear, "forward", lambda module, x: self.product(module, x)),
                patched(nn.Embedding, "forward", lambda _, ids: self._inputs[EMBEDDING][ids]),
            ):
                yield thin.model
        finally:
            thin.model.set_attn_implementation(before)

    def product(self, module: Any, x: Tensor) -> Tensor:
        """One part of a packed product."""
        site, index = self._sites[module.site]
        if site.name == HEAD:
            return self._head(module, x)
        if site.name not in self._last or self._last[site.name][0] is not x:
            self._last[site.name] = x, self._parts(site, x)
        return self._last[site.name][1][index]

    def _parts(self, site: MarkedSite, x: Tensor) -> tuple[Tensor, ...]:
        whole = x @ self._inputs[site.name]
        biases = [self._frozen.thin.stored[part.name].bias for part in site.parts]
        if biases[0] is not None:
            whole = whole + torch.cat([bias.float() for bias in biases if bias is not None])
        whole = whole + self._low_rank(site.name.removesuffix(".weight"), x)
        return torch.split(whole, [part.shape[0] for part in site.parts], dim=-1)

    def _low_rank(self, name: str, x: Tensor) -> Tensor:
        """(x A) B of each part that learns, side by side."""
        parts = [key.removesuffix(".lora_a") for key in self._learning if key.endswith(".lora_a")]
        parts = [part for part in parts if part.rpartition(".")[0] == name]
        a, b = ([self._learning[f"{part}.lora_{half}"] for part in parts] for half in "ab")
        rows = torch.split(x @ torch.cat(a, dim=1), [each.shape[1] for each in a], dim=-1)
        return (
            torch.cat([row @ each for row, each in zip(rows, b, strict=True)], -1)
            * self._inputs["lora_scale"]
        )

    def _head(self, module: Any, x: Tensor) -> Tensor:
        rows = x.flatten(0, 1).index_select(0, self.rows)
        weight = self._inputs[EMBEDDING].t() if self._frozen.thin.tied else self._inputs[HEAD]
        logits = rows @ weight
        bias = self._frozen.thin.stored[module.site].bias
        return logits if bias is None else logits + bias.float()


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: None,
    scaling: float,
    **options: Any,
) -> tuple[Tensor, None]:
    """Causal attention of one layer.

    Args:
        query: [B, heads, L, head_dim].
        key, value: [B, kv_heads, keys, head_dim].
        options: `sliding_window` and `softcap` are read, None where the layer has none.
    """
    key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    if softcap := options.get("softcap"):
        scores = torch.tanh(scores / softcap) * softcap
    scores = _causal(scores, options.get("sliding_window"))
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
