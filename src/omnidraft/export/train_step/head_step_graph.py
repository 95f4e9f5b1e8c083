"""The adaptive head's step as an inference graph: draws, labels, loss, AdamW (spec/14-train-step.md).

The drafter's draws and their hidden states are computed by the same code that trains with torch
(training/head/head_states.py); only the head learns from them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import torch
from onnx import ModelProto
from torch import Tensor
from transformers import DynamicCache

from omnidraft.checkpoints.patched import patched
from omnidraft.export.train_step.step_forward import Forward, Frozen, Named, cut
from omnidraft.export.train_step.step_onnx import adamw, free_sizes, to_onnx
from omnidraft.runtime.bundle.head import HeadShape
from omnidraft.runtime.bundle.train_step_entry import StepLayout
from omnidraft.training.head import head_states
from omnidraft.training.head.head import AcceptanceHead, head_loss
from omnidraft.training.head.head_batch import Drawn, HeadBatch

REJECT_WEIGHT = 6.0  # weight of a rejected draft token in the loss, as in the paper


def trace_head_step(frozen: Frozen, lora: StepLayout, head: StepLayout, shape: HeadShape) -> ModelProto:
    """The graph of one step of the head; the drafter's weights are still inputs.

    Args:
        frozen: the drafter.
        lora: layout of the drafter's adapter.
        head: layout of the head's tensors, which learn.
        shape: shape of the head.
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
    """The step as a function of the graph's inputs by name, including the drafter's weights."""
    return lambda inputs: _step(frozen, layouts, shape, inputs)


def _vocab(frozen: Frozen) -> int:
    return next(site for site in frozen.sites if site.name == "lm_head.weight").parts[0].shape[0]


def _step(frozen: Frozen, layouts: tuple[StepLayout, StepLayout], shape: HeadShape, inputs: Named) -> Named:
    """The outputs of the graph by name."""
    lora, head = layouts
    hidden, drawn = _draws(frozen, cut(inputs["lora"], lora), inputs)
    learning = {
        name: tensor.detach().requires_grad_() for name, tensor in cut(inputs["parameters"], head).items()
    }
    logits = _logits(hidden, learning, shape) + drawn.odds
    total, weight = head_loss(logits, drawn.labels, REJECT_WEIGHT, known=inputs["known"])
    gradients = torch.autograd.grad(total, list(learning.values()))
    gradient = inputs["gradient"] + torch.cat([each.reshape(-1) for each in gradients])
    summed, whole = inputs["loss"] + total.detach(), inputs["weight"] + weight
    mean = whole.clamp_min(1e-6)
    carried = {"next_loss": summed, "next_weight": whole, "next_gradient": gradient}
    return carried | adamw(inputs, gradient / mean, summed)


def _draws(frozen: Frozen, learned: Named, inputs: Named) -> tuple[Tensor, Drawn]:
    """The draws of the drafter with its adapter, and the hidden states [B, A, hidden] of the draws."""
    nothing = torch.zeros(0)  # inputs that only temperatures above 0 need
    parts = {name: inputs[name] for name in ("input_ids", "positions", "known", "longer")}
    batch = HeadBatch(**parts, next_ids=inputs["said"], ids=nothing, chances=nothing, uniforms=nothing)

    def draw(logits: Tensor) -> Drawn:
        return batch.draws(logits, inputs["allowed"], 0.0)

    with Forward(frozen, inputs, learned).acting() as model, patched(head_states, "DynamicCache", _Kept):
        return head_states.draws_of(model, batch, draw)


def _logits(hidden: Tensor, learning: Named, shape: HeadShape) -> Tensor:
    """The logits of a head with these tensors, as `AcceptanceHead` computes them."""
    head: Any = AcceptanceHead(shape.hidden, shape.blocks)
    names = [*(f"blocks.{i}" for i in range(shape.blocks)), "weight", "bias"]
    values = [tensor.view(-1) if name.endswith("bias") else tensor for name, tensor in learning.items()]
    logits: Tensor = torch.func.functional_call(head, dict(zip(names, values, strict=True)), (hidden,))
    return logits


class _Kept(DynamicCache):
    """The keys and values of the first pass only; transformers' cache begins with an empty tensor."""

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
