"""Answers to a batch of prompts: keys and values grow in place, finished answers leave the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

Choose = Callable[[Tensor, Tensor], Tensor]  # logits [B, vocab] and indices in the batch [B] to ids [B]
_ROOM = 32  # positions that a layer grows by; copying everything at each token takes half of the time


@dataclass(frozen=True)
class Step:
    """One pass: the next token of each unfinished answer.

    Attributes:
        which: the indices of the answers in the batch, shape [B].
        tokens: their next ids, shape [B].
        distributions: at temperature 1, shape [B, vocab].
        hidden: the last hidden states, shape [B, width], where they were requested.
    """

    which: Tensor
    tokens: Tensor
    distributions: Tensor
    hidden: Tensor | None


def likeliest(logits: Tensor, which: Tensor) -> Tensor:
    """The greedy choice."""
    return logits.argmax(dim=-1)


@torch.inference_mode()
def greedy_steps(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    eos_ids: Sequence[int] = (),
    hidden: bool = False,
    choose: Choose = likeliest,
) -> Iterator[Step]:
    """The passes of a batch of prompts, until each answer has ended or has `max_new_tokens`.

    Args:
        model: a transformers decoder in evaluation mode.
        prompts: at least one id each; prompts of equal length need no padding.
        max_new_tokens: maximum length of an answer.
        eos_ids: ids that end an answer, and are part of it.
        hidden: whether to return hidden states too.
        choose: chooses the next token of each unfinished answer; greedy by default.
    """
    longest, device = max(map(len, prompts)), model.device
    ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts], device=device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    which, ends = torch.arange(len(prompts), device=device), torch.tensor(list(eos_ids), device=device)
    cache, decoder = _growing_cache(model), _untyped(model)
    for _ in range(max_new_tokens):
        out = decoder(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True,
            logits_to_keep=1, output_hidden_states=hidden,
        )  # fmt: skip
        logits = out.logits[:, -1].float()
        tokens = choose(logits, which)
        states = out.hidden_states[-1][:, -1].float() if hidden else None
        yield Step(which, tokens, logits.softmax(dim=-1), states)
        unfinished = ~torch.isin(tokens, ends)
        if not unfinished.any():
            return
        if not unfinished.all():
            kept = unfinished.nonzero()[:, 0]
            cache.batch_select_indices(kept)
            which, mask, tokens, positions = which[kept], mask[kept], tokens[kept], positions[kept]
        ids, positions = tokens[:, None], positions[:, -1:] + 1
        mask = torch.cat([mask, torch.ones_like(ids)], dim=1)


class _GrowingLayer(DynamicLayer):
    """Keys and values in buffers with free positions at their end."""

    _whole: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append keys and values, and return all of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)  # type: ignore[no-untyped-call]
        past, new = self.get_seq_length(), key_states.shape[-2]
        if self._whole is None or self._whole[0].shape[-2] < past + new:
            shape = (*key_states.shape[:-2], past + new + _ROOM, key_states.shape[-1])
            larger = key_states.new_empty(shape), value_states.new_empty(shape)
            if self._whole is not None:
                larger[0][..., :past, :].copy_(self._whole[0][..., :past, :])
                larger[1][..., :past, :].copy_(self._whole[1][..., :past, :])
            self._whole = larger
        keys, values = self._whole
        keys[..., past : past + new, :], values[..., past : past + new, :] = key_states, value_states
        self.keys, self.values = keys[..., : past + new, :], values[..., : past + new, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these indices of the batch, and the free positions."""
        if self._whole is not None:
            length = self.get_seq_length()
            self._whole = self._whole[0][indices], self._whole[1][indices]
            self.keys, self.values = (whole[..., :length, :] for whole in self._whole)


def _growing_cache(model: PreTrainedModel) -> DynamicCache:
    """The model's usual cache, whose layers with full attention grow in place."""
    cache = DynamicCache(config=model.config)
    layer_type: Any = _GrowingLayer  # untyped in transformers
    cache.layers = [layer_type() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def _untyped(model: PreTrainedModel) -> Any:
    return model
