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
from omnidraft.runtime.bundle.train_step_entry import TERMS, StepLayout
from omnidraft.training.data.batch import DistributionTensors
from omnidraft.training.objectives.divergence import divergence


def trace_step(frozen: Frozen, layout: StepLayout) -> ModelProto:
    """The graph of one step; the frozen weights are still inputs, named as in the drafter's graph."""
    fixed = _state(layout) | frozen.weights()
    return to_onnx(lora_step(frozen, layout), _batch(fixed), fixed)


def lora_step(frozen: Frozen, layout: StepLayout) -> Callable[[Named], Named]:
    """The step as a function of the graph's inputs by name, including the frozen weights."""
    return lambda inputs: _step(frozen, layout, inputs)


def _batch(fixed: Named) -> Named:
    """A batch of responses with sizes that no other input has."""
    free = islice(free_sizes(fixed.values()), 8)
    responses, length, rows, distributions, listed, direct, direct_listed, ngrams = free
    whole = torch.int64
    return {
        "input_ids": torch.empty(responses, length, dtype=whole),
        "rows": torch.empty(rows, dtype=whole),
        "trie.rows": torch.empty(distributions, dtype=whole),
        "trie.ids": torch.empty(distributions, listed, dtype=whole),
        "trie.probabilities": torch.empty(distributions, listed),
        "trie.other": torch.empty(distributions),
        "trie.weights": torch.empty(distributions),
        "direct.rows": torch.empty(direct, dtype=whole),
        "direct.ids": torch.empty(direct, direct_listed, dtype=whole),
        "direct.probabilities": torch.empty(direct, direct_listed),
        "direct.other": torch.empty(direct),
        "ngram.rows": torch.empty(ngrams, dtype=whole),
        "ngram.ids": torch.empty(ngrams, dtype=whole),
    }


def _state(layout: StepLayout) -> Named:
    """The settings, and the state that one call passes to the next."""
    vector = torch.zeros(layout.size)
    return {
        "scales": torch.zeros(len(TERMS)),
        **{name: torch.tensor(0.0) for name in ("learning_rate", "weight_decay", "clip_norm", "lora_scale")},
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
    sums = _sums(logits, inputs)
    part = (sums * inputs["scales"]).sum()
    gradients = torch.autograd.grad(part, list(learning.values()))
    gradient = inputs["gradient"] + torch.cat([each.reshape(-1) for each in gradients])
    loss = inputs["loss"] + part.detach()
    carried = {"sums": sums.detach(), "next_loss": loss, "next_gradient": gradient}
    return carried | adamw(inputs, gradient, loss)


def _sums(logits: Tensor, inputs: Named) -> Tensor:
    """The terms as sums over positions: one of trie-kl, two of omnidraft (training/objectives/losses.py)."""
    trie = _distributions("trie", inputs, inputs["trie.weights"])
    direct = _distributions("direct", inputs, torch.ones_like(inputs["direct.other"]))
    ngrams = torch.log_softmax(logits.index_select(0, inputs["ngram.rows"]), dim=1)
    return torch.stack([
        (trie.weights * divergence(logits, trie, "forward")).sum(),
        divergence(logits, direct, "reverse").sum(),
        -ngrams.gather(1, inputs["ngram.ids"][:, None]).sum(),
    ])  # fmt: skip


def _distributions(name: str, inputs: Named, weights: Tensor) -> DistributionTensors:
    rows, ids, probabilities, other = (
        inputs[f"{name}.{field}"] for field in ("rows", "ids", "probabilities", "other")
    )
    return DistributionTensors(rows, ids, probabilities, other, weights)
