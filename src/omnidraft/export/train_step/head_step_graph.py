"""The adaptive head's training step as an inference graph: draws, labels, loss, AdamW (spec/train-step.md).

What the drafter draws and the states of what it drew are computed by the very code that trains with torch
(training/head/head_states.py); the head alone learns from them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import torch
from onnx import ModelProto
from torch import Tensor
from transformers import DynamicCache

from omnidraft.checkpoints.patched import swapped
from omnidraft.export.train_step.step_forward import Forward, Frozen, Named, cut
from omnidraft.export.train_step.step_onnx import adamw, free_sizes, to_onnx
from omnidraft.runtime.bundle.head import HeadShape
from omnidraft.runtime.bundle.train_step_entry import StepLayout
from omnidraft.training.head import head_states
from omnidraft.training.head.head import AcceptanceHead, head_loss
from omnidraft.training.head.head_batch import Drawn, HeadBatch

REJECT_WEIGHT = 6.0  # what a refused draft token weighs, as in the paper


def trace_head_step(frozen: Frozen, lora: StepLayout, head: StepLayout, shape: HeadShape) -> ModelProto:
    """The graph of one step of the head, the drafter's weights still inputs.

    Args:
        frozen: the drafter. lora: what it has learned.
        head: what learns, of this shape.
    """
    vector, vocab = torch.zeros(head.size), _vocab(frozen)
    fixed = {
        "allowed": torch.ones(vocab, dtype=torch.bool),
        **{name: torch.tensor(0.0) for name in ("learning_rate", "weight_decay", "clip_norm", "lora_scale")},
        "last": torch.tensor(True),
        "loss": torch.tensor(0.0),
        "weight": torch.tensor(0.0),
        "updates": torch.tensor(0, dtype=torch.int64),
        "lora": torch.zeros(lora.size),
        **{name: vector.clone() for name in ("gradient", "parameters", "exp_avg", "exp_avg_sq")},
        **frozen.weights(),
    }
    responses, length, draws, longer = islice(free_sizes(fixed.values()), 4)
    whole = torch.int64
    batch = {
        "input_ids": torch.empty(responses, length, dtype=whole),
        "positions": torch.empty(responses, draws, dtype=whole),
        "known": torch.empty(responses, draws, dtype=torch.bool),
        "said": torch.empty(responses, draws, dtype=whole),
        "longer": torch.empty(responses, draws, longer, dtype=whole),
    }
    return to_onnx(head_step(frozen, (lora, head), shape), batch, fixed)


def head_step(
    frozen: Frozen, layouts: tuple[StepLayout, StepLayout], shape: HeadShape
) -> Callable[[Named], Named]:
    """The step as a function of the graph's inputs by name, the drafter's weights among them."""
    return lambda given: _step(frozen, layouts, shape, given)


def _vocab(frozen: Frozen) -> int:
    return next(place for place in frozen.places if place.name == "lm_head.weight").parts[0].shape[0]


def _step(frozen: Frozen, layouts: tuple[StepLayout, StepLayout], shape: HeadShape, given: Named) -> Named:
    """All outputs by name."""
    lora, head = layouts
    hidden, drawn = _draws(frozen, cut(given["lora"], lora), given)
    learning = {
        name: tensor.detach().requires_grad_() for name, tensor in cut(given["parameters"], head).items()
    }
    logits = _logits(hidden, learning, shape) + drawn.odds
    total, weight = head_loss(logits, drawn.labels, REJECT_WEIGHT, known=given["known"])
    gradients = torch.autograd.grad(total, list(learning.values()))
    gradient = given["gradient"] + torch.cat([each.reshape(-1) for each in gradients])
    summed, whole = given["loss"] + total.detach(), given["weight"] + weight
    mean = whole.clamp_min(1e-6)
    carried = {"next_loss": summed, "next_weight": whole, "next_gradient": gradient}
    return carried | adamw(given, gradient / mean, summed)


def _draws(frozen: Frozen, learned: Named, given: Named) -> tuple[Tensor, Drawn]:
    """What the drafter as it is now holds likeliest, and its states [B, A, hidden] of that."""
    nothing = torch.zeros(0)  # what only temperatures above 0 ask for
    parts = {name: given[name] for name in ("input_ids", "positions", "known", "said", "longer")}
    batch = HeadBatch(**parts, ids=nothing, chances=nothing, uniforms=nothing)

    def draw(logits: Tensor) -> Drawn:
        return batch.draws(logits, given["allowed"], 0.0)

    with Forward(frozen, given, learned).acting() as model, swapped(head_states, "DynamicCache", _Kept):
        return head_states.draws_of(model, batch, draw)


def _logits(hidden: Tensor, learning: Named, shape: HeadShape) -> Tensor:
    """Of the head with these tensors, as `AcceptanceHead` computes them."""
    head: Any = AcceptanceHead(shape.hidden, shape.blocks)
    names = [*(f"blocks.{i}" for i in range(shape.blocks)), "weight", "bias"]
    values = [tensor.view(-1) if name.endswith("bias") else tensor for name, tensor in learning.items()]
    logits: Tensor = torch.func.functional_call(head, dict(zip(names, values, strict=True)), (hidden,))
    return logits


class _Kept(DynamicCache):
    """Keys and values of the pass before, and nothing else: transformers' own begins with an empty tensor."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        if layer_idx in self._kept:
            keys, values = self._kept[layer_idx]
            return torch.cat([keys, key_states], dim=2), torch.cat([values, value_states], dim=2)
        self._kept[layer_idx] = key_states, value_states
        return key_states, value_states
