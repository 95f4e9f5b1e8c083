"""A drafter's training step as a plain inference graph: forward, loss, gradient, AdamW (spec/train-step.md).

torch computes the step once on tensors of no values; `make_fx` writes down every operation, those of the
gradient too, and the exporter makes ONNX of it. The frozen weights are inputs here, and `step_weights` binds
them to the drafter's own.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import onnx_ir
import torch
from onnx import ModelProto
from torch import Tensor, nn
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from omnidraft.export.graph import quiet
from omnidraft.export.markers import EMBEDDING, HEAD, Place
from omnidraft.export.swapped import swapped
from omnidraft.export.thin_model import ThinModel
from omnidraft.runtime.learner.step_entry import Layout
from omnidraft.training.batch import Laws
from omnidraft.training.divergence import divergence

OPSET = 21  # the first whose DequantizeLinear has blocks and 4 bits
_BETAS, _EPSILON = (0.9, 0.999), 1e-8
_NAME = "omnidraft_step"  # of our attention among transformers' kinds
Named = dict[str, Tensor]


@dataclass(frozen=True)
class Frozen:
    """The weights of a drafter that do not learn.

    Attributes:
        thin: the model. places: what its graph's weights are packed of.
        tied: whether the LM head reads the embedding; a quantised one has a weight of its own.
    """

    thin: ThinModel
    places: Sequence[Place]
    tied: bool

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Of each weight, [in, out] as in the drafter's graph; the embedding's is [vocab, hidden]."""
        found = {}
        for place in self.places:
            rows, columns = place.parts[0].shape[1], sum(part.shape[0] for part in place.parts)
            found[place.name] = (columns, rows) if place.name == EMBEDDING else (rows, columns)
        if self.tied:
            del found[HEAD]
        return found


def trace_step(frozen: Frozen, layout: Layout) -> ModelProto:
    """The graph of one step, its frozen weights still inputs by their names in the drafter's graph.

    Args:
        frozen: the drafter.
        layout: of what learns.
    """
    state = _state(layout)
    weights = {name: torch.empty(shape) for name, shape in frozen.shapes.items()}  # never touched: no memory
    batch = _batch({size for tensor in (*state.values(), *weights.values()) for size in tensor.shape})
    names = [*batch, *state, *weights]

    def flat(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(names, tensors, strict=True))
        return tuple(_step(frozen, layout, given).values())

    values = (*batch.values(), *state.values(), *weights.values())
    with _training_form(frozen.thin):
        traced = make_fx(
            flat,
            decomposition_table={**core_aten_decompositions(), **_CHEAPER},
            tracing_mode="symbolic",
            _allow_non_fake_inputs=True,
        )(*values)
    free = torch.export.Dim.AUTO
    dims: list[dict[int, Any]] = [{axis: free for axis in range(t.dim())} for t in batch.values()]
    dims += [{} for _ in names[len(batch) :]]
    with quiet(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Exporting a model while it is in training mode", UserWarning)
        program = torch.onnx.export(
            traced.eval(),
            values,
            dynamo=True,
            dynamic_shapes=tuple(dims),
            input_names=names,
            output_names=list(_OUTPUTS),
            opset_version=OPSET,
            optimize=False,  # it takes AdamW's 1e-8 for 0, and onnxruntime does the rest when it loads
        )
    assert program is not None
    return _bare(onnx_ir.to_proto(program.model))


def _bare(model: ModelProto) -> ModelProto:
    """Without what the exporter noted of where each node came from, which names files of this machine."""
    for owner in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        for field in ("doc_string", "metadata_props"):
            owner.ClearField(field)
    model.graph.ClearField("value_info")  # onnxruntime infers it anew
    return model


_OUTPUTS = (
    "sums", "next_loss", "norm", "applied", "next_gradient", "next_updates", "next_parameters",
    "next_exp_avg", "next_exp_avg_sq",
)  # fmt: skip


def _batch(taken: set[int]) -> Named:
    """Responses of sizes that are no others of the model: the tracer takes equal sizes for the same one."""
    free = (size for size in itertools.count(1009) if size not in taken)
    responses, length, rows, laws, listed, direct, direct_listed, ngrams = itertools.islice(free, 8)
    whole = torch.int64
    return {
        "input_ids": torch.empty(responses, length, dtype=whole),
        "rows": torch.empty(rows, dtype=whole),
        "trie.rows": torch.empty(laws, dtype=whole),
        "trie.ids": torch.empty(laws, listed, dtype=whole),
        "trie.probabilities": torch.empty(laws, listed),
        "trie.other": torch.empty(laws),
        "trie.weights": torch.empty(laws),
        "direct.rows": torch.empty(direct, dtype=whole),
        "direct.ids": torch.empty(direct, direct_listed, dtype=whole),
        "direct.probabilities": torch.empty(direct, direct_listed),
        "direct.other": torch.empty(direct),
        "ngram.rows": torch.empty(ngrams, dtype=whole),
        "ngram.ids": torch.empty(ngrams, dtype=whole),
    }


def _state(layout: Layout) -> Named:
    """Settings, and what one call hands to the next."""
    vector = torch.zeros(layout.size)
    return {
        "scales": torch.zeros(len(layout.terms)),
        **{name: torch.tensor(0.0) for name in ("learning_rate", "weight_decay", "clip_norm", "lora_scale")},
        "last": torch.tensor(True),
        "loss": torch.tensor(0.0),
        "updates": torch.tensor(0, dtype=torch.int64),
        **{name: vector.clone() for name in ("gradient", "parameters", "exp_avg", "exp_avg_sq")},
    }


def _step(frozen: Frozen, layout: Layout, given: Named) -> Named:
    """All outputs by name."""
    learning = {
        name: given["parameters"][start:end].view(shape).detach().requires_grad_()
        for name, (start, end), shape in layout.spans()
    }
    logits = _logits(frozen, given, learning)
    sums = _sums(logits, given)
    part = (sums * given["scales"]).sum()
    found = torch.autograd.grad(part, list(learning.values()))
    gradient = given["gradient"] + torch.cat([each.reshape(-1) for each in found])
    loss = given["loss"] + part.detach()
    return dict(zip(_OUTPUTS, (sums.detach(), loss, *_adamw(given, gradient, loss)), strict=True))


def _logits(frozen: Frozen, given: Named, learning: Named) -> Tensor:
    """The drafter's rows that are asked for, [R, draft vocab]."""
    forward = _Forward(frozen, given, learning)
    positions = torch.arange(given["input_ids"].shape[1])[None]
    with (
        swapped(nn.Linear, "forward", lambda module, x: forward.product(module, x)),
        swapped(nn.Embedding, "forward", lambda _, ids: given[EMBEDDING][ids]),
    ):
        model: Any = frozen.thin.model
        logits: Tensor = model(input_ids=given["input_ids"], position_ids=positions, use_cache=False).logits
    return logits


class _Forward:
    """The products of a drafter: packed as in its graph, each packed one computed once."""

    def __init__(self, frozen: Frozen, given: Named, learning: Named) -> None:
        self._frozen, self._given, self._learning = frozen, given, learning
        self._places = {
            part.name: (place, i) for place in frozen.places for i, part in enumerate(place.parts)
        }
        self._last: dict[str, tuple[Tensor, tuple[Tensor, ...]]] = {}

    def product(self, module: Any, x: Tensor) -> Tensor:
        place, index = self._places[module.site]
        if place.name == HEAD:
            return self._head(module, x)
        if place.name not in self._last or self._last[place.name][0] is not x:
            self._last[place.name] = x, self._parts(place, x)
        return self._last[place.name][1][index]

    def _parts(self, place: Place, x: Tensor) -> tuple[Tensor, ...]:
        whole = x @ self._given[place.name]
        biases = [self._frozen.thin.stored[part.name].bias for part in place.parts]
        if biases[0] is not None:
            whole = whole + torch.cat([bias.float() for bias in biases if bias is not None])
        site = place.name.removesuffix(".weight")
        whole = whole + self._low_rank(site, x)
        return torch.split(whole, [part.shape[0] for part in place.parts], dim=-1)

    def _low_rank(self, site: str, x: Tensor) -> Tensor:
        """(x A) B of each part that learns, side by side."""
        heads = [name.removesuffix(".lora_a") for name in self._learning if name.endswith(".lora_a")]
        parts = [name for name in heads if name.rpartition(".")[0] == site]
        a, b = ([self._learning[f"{part}.lora_{half}"] for part in parts] for half in "ab")
        rows = torch.split(x @ torch.cat(a, dim=1), [each.shape[1] for each in a], dim=-1)
        return (
            torch.cat([row @ each for row, each in zip(rows, b, strict=True)], -1) * self._given["lora_scale"]
        )

    def _head(self, module: Any, x: Tensor) -> Tensor:
        rows = x.flatten(0, 1).index_select(0, self._given["rows"])
        weight = self._given[EMBEDDING].t() if self._frozen.tied else self._given[HEAD]
        logits = rows @ weight
        bias = self._frozen.thin.stored[module.site].bias
        return logits if bias is None else logits + bias.float()


def _sums(logits: Tensor, given: Named) -> Tensor:
    """The terms as sums over places: trie-kl's, and the two of omnidraft (objective_kl)."""
    trie = _laws("trie", given, given["trie.weights"])
    direct = _laws("direct", given, torch.ones_like(given["direct.other"]))
    ngrams = torch.log_softmax(logits.index_select(0, given["ngram.rows"]), dim=1)
    return torch.stack([
        (trie.weights * divergence(logits, trie, "forward")).sum(),
        divergence(logits, direct, "reverse").sum(),
        -ngrams.gather(1, given["ngram.ids"][:, None]).sum(),
    ])  # fmt: skip


def _laws(name: str, given: Named, weights: Tensor) -> Laws:
    rows, ids, probabilities, other = (
        given[f"{name}.{field}"] for field in ("rows", "ids", "probabilities", "other")
    )
    return Laws(rows, ids, probabilities, other, weights)


def _adamw(given: Named, gradient: Tensor, loss: Tensor) -> tuple[Tensor, ...]:
    """Outputs from `norm` on; everything stays as it was unless this is the last part and all is finite."""
    norm = torch.linalg.vector_norm(gradient)
    applied = given["last"] & torch.isfinite(loss) & torch.isfinite(norm)
    updates = given["updates"] + applied.long()
    clipped = gradient * (given["clip_norm"] / (norm + 1e-6)).clamp_max(1.0)
    time = (given["updates"] + 1).double()  # float32 cannot tell 0.999 ** t from 1 - 1e-3 t well enough
    betas = torch.tensor(_BETAS, dtype=torch.float64)  # a plain number would be exported as float32
    first, second = (1.0 - betas**time).unbind()
    size, root = (given["learning_rate"].double() / first).float(), second.sqrt().float()
    average = given["exp_avg"] + (clipped - given["exp_avg"]) * (1.0 - _BETAS[0])
    square = given["exp_avg_sq"] * _BETAS[1] + clipped * clipped * (1.0 - _BETAS[1])
    kept = given["parameters"] * (1.0 - given["learning_rate"] * given["weight_decay"])
    moved = kept - size * (average / (square.sqrt() / root + _EPSILON))
    pairs = (
        (moved, given["parameters"]), (average, given["exp_avg"]), (square, given["exp_avg_sq"]),
    )  # fmt: skip
    after = [torch.where(applied, new, old) for new, old in pairs]
    return norm, applied, gradient, updates, *after


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: None,
    scaling: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Causal attention of one layer over whole responses [B, heads, L, head_dim]."""
    key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    at = torch.arange(query.shape[2])
    behind = at[:, None] - at[None, :]
    seen = behind >= 0
    if sliding_window:
        seen = seen & (behind < sliding_window)
    weights = torch.where(seen, scores, torch.finfo(torch.float32).min).softmax(dim=-1)
    return (weights @ value).transpose(1, 2), None


def _slice_backward(grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor:
    """Zeros on both sides of a slice's gradient; the exporter's own way is a scatter over all indices."""
    size = sizes[dim]
    assert step == 1, "a slice with gaps"
    end = size if end > 2**62 else end
    before, after = ([*grad.shape] for _ in range(2))
    before[dim], after[dim] = start, size - end
    return torch.cat([grad.new_zeros(before), grad, grad.new_zeros(after)], dim=dim)


_CHEAPER: Mapping[Any, Callable[..., Any]] = {torch.ops.aten.slice_backward.default: _slice_backward}

ALL_ATTENTION_FUNCTIONS.register(_NAME, _attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, lambda *_, **__: None)


@contextmanager
def _training_form(thin: ThinModel) -> Iterator[None]:
    """Within it the model attends to whole responses in plain operations."""
    before = thin.model.config._attn_implementation
    thin.model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        thin.model.set_attn_implementation(before)
