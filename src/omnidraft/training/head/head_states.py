"""Hidden states of drawn tokens, each after the text before it, as in drafting.

A first pass reads the responses. A second pass reads every drawn token at its place, with the keys and values
of the first pass; a drawn token attends to the text before its place and to itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from omnidraft.training.head.head_batch import Drawn, HeadBatch

Draw = Callable[[Tensor], Drawn]  # of logits [B, A, vocab]


def draws_of(model: nn.Module, batch: HeadBatch, draw: Draw) -> tuple[Tensor, Drawn]:
    """Draw a token after each place of the responses, and compute the drafter's state after that token.

    Args:
        model: a transformers decoder; gradients are not kept, and dropout is off.
        batch: the responses.
        draw: draws tokens from logits.

    Returns:
        hidden states [B, A, hidden] of the drawn tokens, as the LM head reads them, and the drawn tokens.
    """
    decoder: Any = model
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            cache = DynamicCache()  # without a window: it keeps every position
            first = decoder.base_model(input_ids=batch.input_ids, past_key_values=cache, use_cache=True)
            drawn = draw(_logits(decoder, _at(first.last_hidden_state, batch.positions)))
            second = decoder.base_model(
                input_ids=drawn.ids,
                past_key_values=cache,
                use_cache=True,
                position_ids=batch.positions + 1,
                attention_mask=_masks(decoder.config, batch),
            )
    finally:
        model.train(training)
    return second.last_hidden_state, drawn


def _logits(decoder: Any, hidden: Tensor) -> Tensor:
    """Logits of the LM head, with the scales and soft caps that some families apply after it."""
    logits: Tensor = decoder.get_output_embeddings()(hidden).float()
    logits = logits / getattr(decoder.config, "logits_scaling", 1.0)
    cap = getattr(decoder.config, "final_logit_softcapping", None)
    return logits if cap is None else cap * torch.tanh(logits / cap)


def _at(states: Tensor, positions: Tensor) -> Tensor:
    return states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1]))


def _masks(config: Any, batch: HeadBatch) -> Any:
    """What each drawn token attends to, [B, 1, A, L + A]; with several kinds of layers one mask each."""
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    if "sliding_attention" in kinds:
        return {kind: _mask(batch, window if kind == "sliding_attention" else None) for kind in kinds}
    return _mask(batch, None if kinds else window)


def _mask(batch: HeadBatch, window: int | None) -> Tensor:
    (b, longest), count = batch.input_ids.shape, batch.positions.shape[1]
    places = torch.arange(longest, device=batch.input_ids.device)
    seen = places <= batch.positions[..., None]  # [B, A, L]
    if window is not None:
        seen &= places > batch.positions[..., None] + 1 - window
    own = torch.eye(count, dtype=torch.bool, device=seen.device).expand(b, -1, -1)
    allowed = torch.cat([seen, own], dim=-1)[:, None]
    return torch.zeros(allowed.shape, device=seen.device).masked_fill(
        ~allowed, torch.finfo(torch.float32).min
    )
