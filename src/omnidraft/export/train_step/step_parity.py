"""A training step as it ships against torch: one step on a small batch that is made up, each graph compared.

What is compared is tracing, exporter, onnxruntime and the binding of the drafter's weights: torch computes
the same function eagerly, with weights that are read and dequantised here.
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
from omnidraft.export.quantize.parity import StepParity
from omnidraft.export.train_step.head_step_graph import head_step
from omnidraft.export.train_step.step_forward import Frozen, Named
from omnidraft.export.train_step.step_graph import lora_step
from omnidraft.export.train_step.step_weights import Shipped
from omnidraft.learning.step.step_run import StepRun
from omnidraft.runtime.bundle.head import HeadShape
from omnidraft.runtime.bundle.train_step_entry import StepLayout

LARGEST = 1e-4  # difference, as a share of what it is of; 3e-6 was measured (fp32 and int8)
_LENGTHS = (7, 12)  # draft tokens of the two responses, a call of the graph each
_UPDATES = 10
_VECTORS = ("parameters", "exp_avg", "exp_avg_sq")
Arrays = dict[str, NDArray[Any]]
Step = Callable[[Named], Named]


def lora_parity(graph: Path, frozen: Frozen, layout: StepLayout, shipped: Shipped) -> StepParity:
    """Of `step.onnx`.

    Args:
        graph: as written. frozen: the drafter. layout: of what learns.
        shipped: the drafter's graph.

    Raises:
        ExportError: it is not what torch computes.
    """
    rng = np.random.default_rng(0)
    vocab = _vocab(frozen)
    parts = [_responses(rng, vocab, length) for length in _LENGTHS]
    settings = {**_settings(1e-2), "scales": np.array([0.1, 0.05, 0.02], np.float32)}
    return _refused(
        graph, _compare(graph, lora_step(frozen, layout), parts, settings, layout, frozen, shipped)
    )


def head_parity(
    graph: Path, frozen: Frozen, layouts: tuple[StepLayout, StepLayout], shape: HeadShape, shipped: Shipped
) -> StepParity:
    """Of `head.onnx`, like `lora_parity`; layouts of the drafter's tensors and of the head's.

    Of three batches the best counts: what the drafter holds likeliest may be as good as a tie in one.
    """
    found, (lora, layout), vocab = list[StepParity](), layouts, _vocab(frozen)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        parts = [_draws(rng, vocab, length) for length in _LENGTHS]
        vector = (0.1 * rng.standard_normal(lora.size)).astype(np.float32)
        settings = {**_settings(1e-2), "lora": vector, "allowed": np.arange(vocab) > 0}
        step = head_step(frozen, layouts, shape)
        found.append(_compare(graph, step, parts, settings, layout, frozen, shipped))
        if found[-1].worst <= LARGEST:
            break
    return _refused(graph, min(found, key=lambda each: each.worst))


def _refused(graph: Path, found: StepParity) -> StepParity:
    if found.worst > LARGEST:
        raise ExportError(
            f"the training graph {graph.name} computes another step in "
            "onnxruntime than torch does: loss, gradient and tensors differ by "
            f"{found.loss:.1e}, {found.gradient:.1e} and {found.tensors:.1e} of their "
            f"size and not by {LARGEST:.0e} at most",
            "leave --train-step out, or try other versions of torch and onnxruntime",
        )
    return found


def _compare(
    graph: Path, step: Step, parts: Sequence[Arrays], settings: Arrays, layout: StepLayout, frozen: Frozen,
    shipped: Shipped,
) -> StepParity:  # fmt: skip
    """One step with moments and updates of before, so that no update hangs on a gradient's last bits."""
    rng = np.random.default_rng(1)
    drawn = rng.standard_normal((3, layout.size)).astype(np.float32)
    state: Arrays = {"parameters": 0.1 * drawn[0], "exp_avg": 1e-2 * drawn[1], "exp_avg_sq": drawn[2] ** 2}
    state["exp_avg_sq"] = state["exp_avg_sq"] * np.float32(1e-2) + np.float32(1e-4)
    run = StepRun(graph, graph.parent.parent, state["parameters"], 1)
    run.restore({**state, "updates": np.array([_UPDATES], np.int64)}, "")
    found = run.run(list(parts), settings)
    wanted = _in_torch(step, parts, {**settings, **state}, _weights(frozen, shipped))
    total = wanted["next_loss"]
    gradient = _share(found["next_gradient"], wanted["next_gradient"])
    moved = [_share(found[f"next_{n}"] - state[n], wanted[f"next_{n}"] - state[n]) for n in _VECTORS]
    counts = (bool(found["applied"]), int(found["next_updates"])) == (True, _UPDATES + 1)
    loss = abs(float(found["next_loss"] - total)) / max(abs(float(total)), 1e-6)
    return StepParity(loss, gradient, max(moved) if counts else float("inf"))


def _share(found: NDArray[Any], wanted: NDArray[Any]) -> float:
    difference = np.linalg.norm(found.astype(np.float64) - wanted.astype(np.float64))
    return float(difference / max(float(np.linalg.norm(wanted.astype(np.float64))), 1e-12))


def _in_torch(step: Step, parts: Sequence[Arrays], fixed: Arrays, weights: Named) -> Arrays:
    """The outputs of the last call."""
    given = weights | {name: torch.from_numpy(np.array(value)) for name, value in fixed.items()}
    given |= {"updates": torch.tensor(_UPDATES), "loss": torch.tensor(0.0), "weight": torch.tensor(0.0)}
    given["gradient"] = torch.zeros_like(given["parameters"])
    found: Named = {}
    for i, part in enumerate(parts):
        given |= {name: torch.from_numpy(value) for name, value in part.items()}
        found = step(given | {"last": torch.tensor(i == len(parts) - 1)})
        given |= {
            name: found[f"next_{name}"] for name in ("loss", "weight", "gradient") if f"next_{name}" in found
        }
    return {name: value.detach().numpy() for name, value in found.items()}


def _settings(rate: float) -> Arrays:
    values = {"learning_rate": rate, "weight_decay": 0.01, "clip_norm": 1.0, "lora_scale": 2.0}
    return {name: np.array(value, np.float32) for name, value in values.items()}


def _vocab(frozen: Frozen) -> int:
    return next(place for place in frozen.places if place.name == EMBEDDING).parts[0].shape[0]


def _responses(rng: np.random.Generator, vocab: int, length: int) -> Arrays:
    """One response with a distribution of each kind at every row behind its first token."""
    rows = np.arange(length)
    listed = min(4, vocab)
    ids = np.array([rng.choice(vocab, listed, replace=False) for _ in rows])
    distributions = rng.dirichlet(np.ones(listed + 1), length).astype(np.float32)
    batch: Arrays = {"input_ids": rng.integers(0, vocab, (1, length)), "rows": rows}
    for term in ("trie", "direct"):
        batch |= {
            f"{term}.rows": rows,
            f"{term}.ids": ids,
            f"{term}.probabilities": distributions[:, :-1].copy(),
            f"{term}.other": distributions[:, -1].copy(),
        }
    batch["trie.weights"] = rng.uniform(0.5, 1.0, length).astype(np.float32)
    return batch | {"ngram.rows": rows[1:3], "ngram.ids": rng.integers(0, vocab, 2)}


def _draws(rng: np.random.Generator, vocab: int, length: int) -> Arrays:
    """One response with a draw at each of its tokens but the last."""
    positions = np.arange(length - 1)[None]
    return {
        "input_ids": rng.integers(0, vocab, (1, length)),
        "positions": positions,
        "known": positions > 0,
        "said": rng.integers(0, vocab, positions.shape),
        "longer": rng.integers(-1, vocab, (*positions.shape, 2)),
    }


def _weights(frozen: Frozen, shipped: Shipped) -> Named:
    """The drafter's weights as they ship, in float32."""
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in _values(frozen, shipped)}


def _values(frozen: Frozen, shipped: Shipped) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for name in frozen.weights():
        values = _dequantised(shipped, name) if shipped.is_quantised(name) else shipped.values(name)
        yield name, values.astype(np.float32)


def _dequantised(shipped: Shipped, name: str) -> NDArray[np.float32]:
    """(code - zero point) scale, block by block; a product's weight is stored [out, in]."""
    node = shipped.node(name)
    settings: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    bits, block, is_table = settings["bits"], settings["block_size"], node.op_type == "GatherBlockQuantized"
    scales = shipped.values(node.input[2])
    codes = shipped.values(node.input[0 if is_table else 1])
    codes = _unpacked(codes.reshape(len(codes), -1), bits)
    scales = scales.reshape(len(codes), -1)
    zeros = np.full(scales.shape, 1 << (bits - 1))
    if not is_table and len(node.input) > 3:
        stored = shipped.values(node.input[3]).reshape(len(codes), -1)
        zeros = _unpacked(stored, bits)[:, : scales.shape[1]]
    wide = np.repeat(scales, block, axis=1)[:, : codes.shape[1]]
    whole = (codes - np.repeat(zeros, block, axis=1)[:, : codes.shape[1]].astype(np.float32)) * wide
    found: NDArray[np.float32] = whole if is_table else whole[:, : settings["K"]].T
    return found


def _unpacked(codes: NDArray[Any], bits: int) -> NDArray[np.float32]:
    """Codes of rows of bytes; of two in a byte the lower half comes first."""
    if bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1)
    return codes.astype(np.float32)
