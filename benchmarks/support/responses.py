"""Greedy responses of a torch target, with the distributions that each token was chosen by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from omnidraft.learning.positions.target_rows import TargetRows

_ROOM = 32  # positions that a layer grows by; copying everything at each token takes half of the time
# Indices in the batch, next ids, distributions [B, vocab], last hidden states [B, width].
Step = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Response:
    """A target's answer to a prompt, with its distributions at temperature 1.

    Attributes:
        prompt: in target ids.
        tokens: the answer, n target ids.
        rows: the distribution at each token.
        hidden: the last hidden state, normalised, that each of them was computed from, [n, width], float16.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    rows: TargetRows
    hidden: npt.NDArray[np.float16]


@dataclass(frozen=True)
class _Token:
    """A token, and the likeliest ids of the distribution that it was chosen by."""

    token: int
    ids: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float32]
    rest: float
    hidden: npt.NDArray[np.float16]


def respond(
    target: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int = 128,
    eos_ids: Sequence[int] = (),
    top: int = 64,
    batch_size: int = 16,
) -> Iterator[Response]:
    """Greedy responses, each with the rows that its tokens were chosen by: no second pass over the target.

    Args:
        target: a transformers decoder.
        prompts: in target ids; each batch is padded to its longest prompt.
        max_new_tokens: maximum length of a response.
        eos_ids: ids that end a response, and are part of it.
        top: number of ids that are kept of a row.
        batch_size: number of prompts in a batch.
    """
    training = target.training
    target.train(False)
    try:
        for at in range(0, len(prompts), batch_size):
            batch = prompts[at : at + batch_size]
            yield from _collected(batch, _steps(target, batch, max_new_tokens, eos_ids), top)
    finally:
        target.train(training)


def _collected(prompts: Sequence[Sequence[int]], steps: Iterable[Step], top: int) -> Iterator[Response]:
    """The responses of one batch; only the likeliest ids of a row are kept after its pass."""
    answers = [list[_Token]() for _ in prompts]
    for which, tokens, distributions, hidden in steps:
        count = min(top, distributions.shape[1])
        p, ids = (values.cpu().numpy() for values in distributions.topk(count))
        whole = count == distributions.shape[1]
        rest = np.zeros(len(p)) if whole else np.maximum(1.0 - p.sum(axis=1, dtype=np.float64), 0.0)
        states = hidden.cpu().numpy().astype(np.float16)
        for row, (b, token) in enumerate(zip(which.tolist(), tokens.tolist(), strict=True)):
            answers[b].append(_Token(token, ids[row], p[row], rest[row], states[row]))
    for prompt, answer in zip(prompts, answers, strict=True):
        rows = TargetRows(
            np.stack([t.ids for t in answer]).astype(np.int32),
            np.stack([t.probabilities for t in answer]).astype(np.float64),
            np.array([t.rest for t in answer]),
        )
        kept = np.stack([t.hidden for t in answer])
        yield Response(tuple(prompt), tuple(t.token for t in answer), rows, kept)


@torch.inference_mode()
def _steps(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], max_new_tokens: int, eos_ids: Sequence[int]
) -> Iterator[Step]:
    """The passes of a batch: keys and values grow in place, finished answers leave the batch."""
    longest, device = max(map(len, prompts)), model.device
    ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts], device=device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    which, ends = torch.arange(len(prompts), device=device), torch.tensor(list(eos_ids), device=device)
    cache, decoder = _growing_cache(model), _untyped(model)
    for _ in range(max_new_tokens):
        out = decoder(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True,
            logits_to_keep=1, output_hidden_states=True,
        )  # fmt: skip
        logits = out.logits[:, -1].float()
        tokens = logits.argmax(dim=-1)
        yield which, tokens, logits.softmax(dim=-1), out.hidden_states[-1][:, -1]
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
