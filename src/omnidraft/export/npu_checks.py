"""Check static graphs: parity of every form with torch, and the entry of the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.errors import ExportError
from omnidraft.export.model_export import ModelExport
from omnidraft.export.npu.npu import WEIGHTS, NpuOptions, let_adapters_in
from omnidraft.export.npu.npu_providers import ACCELERATORS
from omnidraft.export.npu.npu_quantize import write_quantized
from omnidraft.export.npu.static_halves import store_halves
from omnidraft.export.quantize.parity import Parity, compare_with_torch
from omnidraft.runtime.models.static_model import StaticForm, StaticGraphs, StaticModel

_AGREEMENT = {"float": 0.98, "qdq": 0.5}  # least share of positions with the argmax of torch


def finish_static(
    work: Path, model: ModelExport, options: NpuOptions, rows: Sequence[Sequence[int]]
) -> dict[str, Parity]:
    """Quantise a model's static graphs if an accelerator needs that, and compare every form with torch."""
    assert isinstance(model.checkpoint, Checkpoint), "static graphs are made from checkpoints"
    first = model.static["float"]
    limit = first.kv.max_length
    if options.quantized:
        texts = [model.start + model.tokenizer.encode(prompt) for prompt in options.calibration]
        model.static["qdq"] = write_quantized(first, work / model.role / "npu/qdq", texts)
    lora_rank = None if model.lora is None else options.lora_rank
    if lora_rank is not None:
        let_adapters_in(first, lora_rank)
    store_halves(first)
    graphs = [StaticModel(StaticGraphs(form)) for form in model.static.values()]
    measured = compare_with_torch(model.checkpoint, graphs, [row[:limit] for row in rows])
    parities = dict(zip(model.static, measured, strict=True))
    for name, parity in parities.items():
        refuse_broken(model.role, name, parity)
    model.npu = describe(work, model.static, options.accelerators)
    if lora_rank is not None:
        model.npu["forms"]["float"]["lora_rank"] = lora_rank
    return {f"npu-{name}": parity for name, parity in parities.items()}


def refuse_broken(role: str, name: str, parity: Parity) -> None:
    """Stop an export whose static graphs do not agree with the checkpoint."""
    least = _AGREEMENT[name]
    if parity.greedy_agreement < least:
        raise ExportError(
            f"the {role}'s {name} graphs choose torch's token at {parity.greedy_agreement:.1%} of "
            f"{parity.positions} positions and {least:.0%} are needed",
            "export without --npu"
            + (", or name another text as calibration in --config" if name == "qdq" else ""),
        )


def describe(work: Path, forms: Mapping[str, StaticForm], accelerators: Sequence[str]) -> dict[str, Any]:
    """The manifest's entry of a model's static graphs (spec/03-bundle.md)."""
    first = forms["float"]
    return {
        "kv_length": first.kv.max_length,
        "host": first.host.relative_to(work).as_posix(),
        "forms": {
            name: {
                "mask": form.mask,
                "weights": (form.graphs[1].parent / WEIGHTS).relative_to(work).as_posix(),
                "graphs": [
                    {"block": block, "graph": path.relative_to(work).as_posix()}
                    for block, path in sorted(form.graphs.items())
                ],
            }
            for name, form in forms.items()
        },
        "providers": {name: ACCELERATORS[name].as_json() for name in accelerators},
    }
