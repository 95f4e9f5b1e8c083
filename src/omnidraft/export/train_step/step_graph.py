"""A drafter's training step as an inference graph: forward, loss, gradient, AdamW (spec/14-train-step.md).

The frozen weights are inputs here; `step_weights` binds them to the weights of the drafter's graph.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import torch
from onnx import ModelProto
from torch import Tensor

from omnidraft.export.train_step.step_forward import Forward, Frozen, Named, cut
from omnidraft.export.train_step.step_onnx import adamw, free_sizes, to_onnx
from omnidraft.runtime.bundle.train_step_entry import StepLayout
from omnidraft.training.data.batch import DistributionTensors
from omnidraft.training.objectives.divergence import divergence

SETTINGS = ("scale", "learning_rate", "weight_decay", "clip_norm", "lora_scale")


def trace_step(frozen: Frozen, layout: StepLayout) -> ModelProto:
    """The graph of one step; the frozen weights are still inputs, named as in the drafter's graph."""
    fixed = _state(layout) | frozen.weights()
    return to_onnx(lora_step(frozen, layout), _batch(fixed), fixed)


def lora_step(frozen: Frozen, layout: StepLayout) -> Callable[[Named], Named]:
    """The step as a function of the graph's inputs by name, including the frozen weights."""
    return lambda inputs: _step(frozen, layout, inputs)


def _batch(fixed: Named) -> Named:
    """A batch of responses with sizes that no other input has."""
    responses, length, rows, distributions, listed = islice(free_sizes(fixed.values()), 5)
    whole = torch.int64
    return {
        "input_ids": torch.empty(responses, length, dtype=whole),
        "rows": torch.empty(rows, dtype=whole),
        "trie.rows": torch.empty(distributions, dtype=whole),
        "trie.ids": torch.empty(distributions, listed, dtype=whole),
        "trie.probabilities": torch.empty(distributions, listed),
        "trie.other": torch.empty(distributions),
        "trie.weights": torch.empty(distributions),
    }


def _state(layout: StepLayout) -> Named:
    """The settings, and the state that one call passes to the next."""
    vector = torch.zeros(layout.size)
    return {
        **{name: torch.tensor(0.0) for name in SETTINGS},
        "last": torch.tensor(True),
        "loss": torch.tensor(0.0),
        "updates": torch.tensor(0, dtype=torch.int64),
        **{name: vector.clone() for name in ("gradient", "parameters", "exp_avg", "exp_avg_sq")},
    }


def _step(frozen: Frozen, layout: StepLayout, inputs: Named) -> Named:
    """The outputs of the graph by name."""
    learning = {
        name: tensor.detach().requires_grad_() for name, tensor in cut(inputs["parameters"], layout).items()
    }
    positions = torch.arange(inputs["input_ids"].shape[1])[None]
    with Forward(frozen, inputs, learning, inputs["rows"]).acting() as model:
        output = model(input_ids=inputs["input_ids"], position_ids=positions, use_cache=False)
    logits: Tensor = output.logits  # [R, draft vocab]
    fields = ("rows", "ids", "probabilities", "other", "weights")
    trie = DistributionTensors(*(inputs[f"trie.{field}"] for field in fields))
    part = (trie.weights * divergence(logits, trie, "forward")).sum() * inputs["scale"]  # trie-kl
    gradients = torch.autograd.grad(part, list(learning.values()))
    gradient = inputs["gradient"] + torch.cat([each.reshape(-1) for each in gradients])
    loss = inputs["loss"] + part.detach()
    carried = {"next_loss": loss, "next_gradient": gradient}
    return carried | adamw(inputs, gradient, loss)
