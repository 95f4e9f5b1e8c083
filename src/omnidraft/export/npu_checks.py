"""Static graphs judged and described: parity of every form with torch, and what the manifest says of them."""

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
from omnidraft.export.quantize.parity import Parity, compare_with_torch
from omnidraft.runtime.models.static_model import StaticForm, StaticGraphs, StaticModel

_AGREEMENT = {"float": 0.98, "qdq": 0.5}  # of positions, against torch: less is a broken graph


def finish_static(
    work: Path, side: ModelExport, options: NpuOptions, rows: Sequence[Sequence[int]]
) -> dict[str, Parity]:
    """Quantise a model's static graphs where an accelerator takes that, and compare every form with torch.

    Args:
        work: the bundle. side: whose float form is written. rows: token ids to compare on.

    Raises:
        ExportError: a form says something else than the checkpoint.
    """
    assert isinstance(side.checkpoint, Checkpoint), "static graphs are made of checkpoints"
    first = side.static["float"]
    limit = first.kv.max_length
    if options.quantized:
        texts = [side.start + side.tokenizer.encode(prompt) for prompt in options.calibration]
        side.static["qdq"] = write_quantized(first, work / side.role / "npu/qdq", texts)
    lora_rank = None if side.lora is None else options.lora_rank
    if lora_rank is not None:
        let_adapters_in(first, lora_rank)
    models = [StaticModel(StaticGraphs(form)) for form in side.static.values()]
    parities = compare_with_torch(side.checkpoint, models, [row[:limit] for row in rows])
    found = dict(zip(side.static, parities, strict=True))
    for name, parity in found.items():
        refuse_broken(side.role, name, parity)
    side.npu = describe(work, side.static, options.accelerators)
    if lora_rank is not None:
        side.npu["forms"]["float"]["lora_rank"] = lora_rank
    return {f"npu-{name}": parity for name, parity in found.items()}


def refuse_broken(role: str, name: str, parity: Parity) -> None:
    """Stop an export whose static graphs say something else than the checkpoint.

    Raises:
        ExportError: too few positions have torch's argmax.
    """
    least = _AGREEMENT[name]
    if parity.greedy_agreement < least:
        raise ExportError(
            f"the {role}'s {name} graphs choose torch's token at {parity.greedy_agreement:.1%} of "
            f"{parity.positions} positions and {least:.0%} are needed; export without --npu"
            + (", or give --calibration another text" if name == "qdq" else "")
        )


def describe(work: Path, forms: Mapping[str, StaticForm], accelerators: Sequence[str]) -> dict[str, Any]:
    """What the manifest says of a model's static graphs (spec/bundle.md)."""
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
