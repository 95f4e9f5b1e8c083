"""A function of torch as an ONNX graph, gradients and all; and AdamW, which training graphs end with."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir
import torch
from onnx import ModelProto
from torch import Tensor
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

from omnidraft.export.graph.trace import quiet
from omnidraft.export.train_step.step_forward import Named

OPSET = 21  # the first whose DequantizeLinear has blocks and 4 bits
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


def to_onnx(function: Callable[[Named], Named], batch: Named, fixed: Named) -> ModelProto:
    """The graph of a function of named tensors.

    Args:
        function: pure; its outputs are the graph's.
        batch: inputs of any sizes, in sizes of `free_sizes`. fixed: inputs of these very sizes.
    """
    names, outputs = [*batch, *fixed], list[str]()

    def flat(*tensors: Tensor) -> tuple[Tensor, ...]:
        found = function(dict(zip(names, tensors, strict=True)))
        outputs[:] = found
        return tuple(found.values())

    values = (*batch.values(), *fixed.values())
    traced = make_fx(
        flat,
        decomposition_table={**core_aten_decompositions(), **_CHEAPER},
        tracing_mode="symbolic",
        _allow_non_fake_inputs=True,
    )(*values)
    free = torch.export.Dim.AUTO
    dims: list[dict[int, Any]] = [{axis: free for axis in range(t.dim())} for t in batch.values()]
    dims += [{} for _ in fixed]
    with quiet(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Exporting a model while it is in training mode", UserWarning)
        program = torch.onnx.export(
            traced.eval(),
            values,
            dynamo=True,
            dynamic_shapes=tuple(dims),
            input_names=names,
            output_names=outputs,
            opset_version=OPSET,
            optimize=False,  # it takes AdamW's 1e-8 for 0, and onnxruntime does the rest when it loads
        )
    assert program is not None
    return _bare(onnx_ir.to_proto(program.model))


def free_sizes(fixed: Iterable[Tensor]) -> Iterator[int]:
    """Sizes that no fixed tensor has: the tracer takes equal sizes for the same one."""
    taken = {size for tensor in fixed for size in tensor.shape}
    return (size for size in itertools.count(1009) if size not in taken)


def adamw(given: Named, gradient: Tensor, loss: Tensor) -> Named:
    """One update of the vector `parameters` by the gradient of all parts of a batch, clipped.

    Everything stays as it was unless this is the last part and loss and gradient are finite.
    """
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
    after = {"parameters": moved, "exp_avg": average, "exp_avg_sq": square}
    found = {"norm": norm, "applied": applied, "next_updates": updates}
    return found | {f"next_{name}": torch.where(applied, new, given[name]) for name, new in after.items()}


def _bare(model: ModelProto) -> ModelProto:
    """Without what the exporter noted of where each node came from, which names files of this machine."""
    for owner in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        for field in ("doc_string", "metadata_props"):
            owner.ClearField(field)
    model.graph.ClearField("value_info")  # onnxruntime infers it anew
    return model


def _slice_backward(grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor:
    """Zeros on both sides of a slice's gradient; the exporter's own way is a scatter over all indices."""
    size = sizes[dim]
    assert step == 1, "a slice with gaps"
    end = size if end > 2**62 else end
    before, after = ([*grad.shape] for _ in range(2))
    before[dim], after[dim] = start, size - end
    return torch.cat([grad.new_zeros(before), grad, grad.new_zeros(after)], dim=dim)


_CHEAPER: Mapping[Any, Callable[..., Any]] = {torch.ops.aten.slice_backward.default: _slice_backward}
