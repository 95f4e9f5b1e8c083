"""Compare one exported model with torch, and say what memory did not allow to compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.export.model_export import ModelExport
from omnidraft.export.quantize.parity import Parity, parity_of, torch_rows
from omnidraft.export.quantize.quantization import FP32


def compare_model(
    work: Path, model: ModelExport, prompts: Sequence[Sequence[int]], quantization: str
) -> dict[str, Parity]:
    """Parity with torch of the float32 graph and of the shipped graph, one model in memory at a time.

    Args:
        quantization: the name under which the shipped graph's parity is returned.
    """
    assert isinstance(model.checkpoint, Checkpoint), "an adopted graph has no checkpoint to compare with"
    rows = torch_rows(model.checkpoint, prompts)
    shipped = {quantization: parity_of(model.shipped_model(work), prompts, rows)}
    if not model.whole_reference:
        rows = torch_rows(model.checkpoint, prompts, model.reference_layers)
    return {FP32.name: parity_of(model.reference_model(work), prompts, rows), **shipped}


def limits(models: Sequence[ModelExport]) -> tuple[str, ...]:
    """One sentence for each model that was compared only in part because of memory."""
    sentences = []
    for model in models:
        if model.whole_reference:
            continue
        role, layers, needed = model.role, model.checkpoint.shape.num_layers, 4 * model.parameters / 1e9
        sentences.append(
            f"the {role}'s float32 graph was compared with torch in its first {model.reference_layers} of "
            f"{layers} layers, and acceptance before quantisation was measured with the {role} as it ships: "
            f"all of its float32 weights are {needed:.1f} GB, more than the checks may hold"
        )
    return tuple(sentences)
