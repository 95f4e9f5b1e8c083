"""Compare the shipped training graph with torch, in one step on a small made-up batch.

The comparison covers the tracing, the exporter, onnxruntime and the binding of the drafter's weights: torch
computes the same function eagerly, with weights that are read and dequantised here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import helper

from omnidraft.errors import ExportError
from omnidraft.export.graph.markers import EMBEDDING
from omnidraft.export.quantize.grids import unpacked
from omnidraft.export.quantize.parity import StepParity
from omnidraft.export.train_step.step_forward import Frozen, Named
from omnidraft.export.train_step.step_graph import lora_step
from omnidraft.export.train_step.step_weights import Shipped
from omnidraft.learning.step.step_run import StepRun
from omnidraft.runtime.bundle.train_step_entry import StepLayout
from omnidraft.runtime.models.onnx_session import bytes_session

LARGEST = 1e-4  # largest relative difference; 3e-6 was measured (fp32 and int8)
_LENGTHS = (7, 12)  # draft tokens of the two responses; the graph is called once for each
_UPDATES = 10
_VECTORS = ("parameters", "exp_avg", "exp_avg_sq")
Arrays = dict[str, NDArray[Any]]
Step = Callable[[Named], Named]


def lora_parity(graph: Path, frozen: Frozen, layout: StepLayout, shipped: Shipped) -> StepParity:
    """Parity of `step.onnx`."""
    rng = np.random.default_rng(0)
    vocab = next(site for site in frozen.sites if site.name == EMBEDDING).parts[0].shape[0]
    parts = [_responses(rng, vocab, length) for length in _LENGTHS]
    settings = _settings(1e-2)
    step, weights = lora_step(frozen, layout), _weights(frozen, shipped)
    return _refuse(graph, _compare(graph, step, parts, settings, layout.size, weights))


def _refuse(graph: Path, parity: StepParity) -> StepParity:
    """Refuse a graph that differs too much; else return its parity."""
    if parity.worst > LARGEST:
        raise ExportError(
            f"the training graph {graph.name} computes another step in onnxruntime than torch does: gradient "
            f"and tensors differ by {parity.gradient:.1e} and {parity.tensors:.1e} of their size, more than "
            f"{LARGEST:.0e} (the loss by {parity.loss:.1e})",
            "leave --train-step out, or try other versions of torch and onnxruntime",
        )
    return parity


def _compare(
    graph: Path, step: Step, parts: Sequence[Arrays], settings: Arrays, size: int, weights: Named
) -> StepParity:
    """One step that continues earlier updates, so that it does not depend on the last bits of a gradient.

    Args:
        weights: the drafter's weights, in float32.
    """
    rng = np.random.default_rng(1)
    drawn = rng.standard_normal((3, size)).astype(np.float32)
    state: Arrays = {"parameters": 0.1 * drawn[0], "exp_avg": 1e-2 * drawn[1], "exp_avg_sq": drawn[2] ** 2}
    state["exp_avg_sq"] = state["exp_avg_sq"] * np.float32(1e-2) + np.float32(1e-4)
    session = bytes_session(graph.read_bytes(), graph, graph.parent.parent, 1)
    run = StepRun(session, state["parameters"])
    run.restore({**state, "updates": np.array([_UPDATES], np.int64)})
    actual = run.run(list(parts), settings)
    expected = _in_torch(step, parts, {**settings, **state}, weights)
    total = expected["next_loss"]
    gradient = _relative(actual["next_gradient"], expected["next_gradient"])
    moved = [_relative(actual[f"next_{n}"] - state[n], expected[f"next_{n}"] - state[n]) for n in _VECTORS]
    counts = (bool(actual["applied"]), int(actual["next_updates"])) == (True, _UPDATES + 1)
    loss = abs(float(actual["next_loss"] - total)) / max(abs(float(total)), 1e-6)
    return StepParity(loss, gradient, max(moved) if counts else float("inf"))


def _relative(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    """Norm of the difference, relative to the norm of what is expected."""
    difference = np.linalg.norm(actual.astype(np.float64) - expected.astype(np.float64))
    return float(difference / max(float(np.linalg.norm(expected.astype(np.float64))), 1e-12))


def _in_torch(step: Step, parts: Sequence[Arrays], fixed: Arrays, weights: Named) -> Arrays:
    """The outputs of the last call, computed by torch."""
    inputs = weights | {name: torch.from_numpy(np.array(value)) for name, value in fixed.items()}
    inputs |= {"updates": torch.tensor(_UPDATES), "loss": torch.tensor(0.0)}
    inputs["gradient"] = torch.zeros_like(inputs["parameters"])
    outputs: Named = {}
    for i, part in enumerate(parts):
        inputs |= {name: torch.from_numpy(value) for name, value in part.items()}
        outputs = step(inputs | {"last": torch.tensor(i == len(parts) - 1)})
        inputs |= {name: outputs[f"next_{name}"] for name in ("loss", "gradient")}
    return {name: value.detach().numpy() for name, value in outputs.items()}


def _settings(rate: float) -> Arrays:
    values = {"scale": 0.1, "learning_rate": rate, "weight_decay": 0.01, "clip_norm": 1.0, "lora_scale": 2.0}
    return {name: np.array(value, np.float32) for name, value in values.items()}


def _responses(rng: np.random.Generator, vocab: int, length: int) -> Arrays:
    """One response with a distribution at every row."""
    rows = np.arange(length)
    listed = min(4, vocab)
    ids = np.array([rng.choice(vocab, listed, replace=False) for _ in rows])
    distributions = rng.dirichlet(np.ones(listed + 1), length).astype(np.float32)
    return {
        "input_ids": rng.integers(0, vocab, (1, length)),
        "rows": rows,
        "trie.rows": rows,
        "trie.ids": ids,
        "trie.probabilities": distributions[:, :-1].copy(),
        "trie.other": distributions[:, -1].copy(),
        "trie.weights": rng.uniform(0.5, 1.0, length).astype(np.float32),
    }


def _weights(frozen: Frozen, shipped: Shipped) -> Named:
    """The drafter's shipped weights in float32."""
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in _values(frozen, shipped)}


def _values(frozen: Frozen, shipped: Shipped) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for name in frozen.weights():
        values = _dequantised(shipped, name) if shipped.is_quantised(name) else shipped.values(name)
        yield name, values.astype(np.float32)


def _dequantised(shipped: Shipped, name: str) -> NDArray[np.float32]:
    """(code - zero point) * scale, block by block; the weight of a product is stored as [out, in]."""
    node = shipped.node(name)
    settings: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    bits, block, is_table = settings["bits"], settings["block_size"], node.op_type == "GatherBlockQuantized"
    codes, scales = map(shipped.values, shipped.codes(name))
    scales = scales.reshape(len(codes), -1)
    codes = unpacked(codes.reshape(len(codes), -1), block * scales.shape[1], bits).astype(np.float32)
    zeros = np.full(scales.shape, 1 << (bits - 1))
    if not is_table and len(node.input) > 3:
        stored = shipped.values(node.input[3]).reshape(len(codes), -1)
        zeros = unpacked(stored, scales.shape[1], bits)
    wide = np.repeat(scales, block, axis=1)[:, : codes.shape[1]]
    whole = (codes - np.repeat(zeros, block, axis=1)[:, : codes.shape[1]].astype(np.float32)) * wide
    weight: NDArray[np.float32] = whole if is_table else whole[:, : settings["K"]].T
    return weight
