"""Trace a torch function with its gradients as an ONNX graph; and AdamW, the end of a training graph."""

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

OPSET = 21  # the first opset whose DequantizeLinear has blocks and 4 bits
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


def to_onnx(function: Callable[[Named], Named], batch: Named, fixed: Named) -> ModelProto:
    """The graph of a function of named tensors.

    Args:
        batch: inputs of variable size; here they have sizes of `free_sizes`.
    """
    names, outputs = [*batch, *fixed], list[str]()

    def flat(*tensors: Tensor) -> tuple[Tensor, ...]:
        results = function(dict(zip(names, tensors, strict=True)))
        outputs[:] = results
        return tuple(results.values())

    values = (*batch.values(), *fixed.values())
    traced = make_fx(
        flat,
        decomposition_table={**core_aten_decompositions(), **_REPLACED},
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
            optimize=False,  # the optimiser turns AdamW's 1e-8 into 0; onnxruntime optimises at load
        )
    assert program is not None
    return _bare(onnx_ir.to_proto(program.model))


def free_sizes(fixed: Iterable[Tensor]) -> Iterator[int]:
    """Sizes that no fixed tensor has: the tracer treats equal sizes as one size."""
    taken = {size for tensor in fixed for size in tensor.shape}
    return (size for size in itertools.count(1009) if size not in taken)


def adamw(inputs: Named, gradient: Tensor, loss: Tensor) -> Named:
    """One update of the vector `parameters` by the clipped gradient of all parts of a batch.

    The state does not change unless this is the last part and loss and gradient are finite.
    """
    norm = torch.linalg.vector_norm(gradient)
    applied = inputs["last"] & torch.isfinite(loss) & torch.isfinite(norm)
    updates = inputs["updates"] + applied.long()
    clipped = gradient * (inputs["clip_norm"] / (norm + 1e-6)).clamp_max(1.0)
    time = (inputs["updates"] + 1).double()  # float32 is too coarse for 1 - 0.999 ** t
    betas = torch.tensor(_BETAS, dtype=torch.float64)  # a Python number would be exported as float32
    first, second = (1.0 - betas**time).unbind()
    size, root = (inputs["learning_rate"].double() / first).float(), second.sqrt().float()
    average = inputs["exp_avg"] + (clipped - inputs["exp_avg"]) * (1.0 - _BETAS[0])
    square = inputs["exp_avg_sq"] * _BETAS[1] + clipped * clipped * (1.0 - _BETAS[1])
    kept = inputs["parameters"] * (1.0 - inputs["learning_rate"] * inputs["weight_decay"])
    moved = kept - size * (average / (square.sqrt() / root + _EPSILON))
    after = {"parameters": moved, "exp_avg": average, "exp_avg_sq": square}
    outputs = {"norm": norm, "applied": applied, "next_updates": updates}
    return outputs | {f"next_{name}": torch.where(applied, new, inputs[name]) for name, new in after.items()}


def _bare(model: ModelProto) -> ModelProto:
    """Remove the exporter's notes on the origin of each node, which contain paths of this machine."""
    for owner in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        for field in ("doc_string", "metadata_props"):
            owner.ClearField(field)
    model.graph.ClearField("value_info")  # onnxruntime infers it again
    return model


def _slice_backward(grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor:
    """Pad the gradient of a slice with zeros; the exporter would scatter over all indices."""
    size = sizes[dim]
    assert step == 1, "a slice with a step"
    end = size if end > 2**62 else end
    before, after = ([*grad.shape] for _ in range(2))
    before[dim], after[dim] = start, size - end
    return torch.cat([grad.new_zeros(before), grad, grad.new_zeros(after)], dim=dim)


def _log1p(x: Tensor) -> Tensor:
    """log(1 + x) for x >= 0 to the last digits, also for a small x (Kahan).

    The exporter would write log(x + 1): its relative error is 1e-3 at x = exp(-10), as in the softplus of the
    loss of a drafter that knows nothing yet.
    """
    more = 1.0 + x
    return torch.where(more == 1.0, x, torch.log(more) * x / (more - 1.0))


_REPLACED: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten.slice_backward.default: _slice_backward,
    torch.ops.aten.log1p.default: _log1p,
}
