"""Measure what the exported form costs: the target's text beside its source in torch (see `text_quality`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.export.model_export import ModelExport
from omnidraft.export.quantize.form_size import size_of
from omnidraft.export.quantize.quantization import FP32, INT8, Quantization
from omnidraft.runtime.models.threads import threads_for
from omnidraft.sample_texts import LONGEST, NAME, TextPiece, pieces_of, sample_texts
from omnidraft.text_quality import MOST_LOSS, Quality, measure_quality

if TYPE_CHECKING:
    from omnidraft.checkpoints.thin_model import Floats


def quality_pieces(model: ModelExport, longest: int) -> list[TextPiece]:
    """The built-in texts, on which a model is measured, in its ids."""
    return pieces_of(sample_texts(), model.tokenizer, model.prompt, model.start, min(LONGEST, longest))


def source_rows(checkpoint: Checkpoint, room: int | None = None) -> Callable[[Sequence[int]], Floats]:
    """A function that gives torch's float32 logits of a text.

    Args:
        room: bytes that the values of a GGUF file's codes may take; None for no limit.
    """
    from omnidraft.checkpoints.thin_model import logits_of, thin_model, unpacked  # adopting works without

    thin = unpacked(thin_model(checkpoint), room)
    return lambda ids: logits_of(thin, list(ids))


def exported_quality(
    work: Path,
    model: ModelExport,
    pieces: Sequence[TextPiece],
    room: int | None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Quality | None:
    """The quality of the shipped graph beside its source; None for an adopted graph, which has no source.

    Args:
        room: bytes of float32 weights that may be in memory; None for no limit.
        progress: called with (pieces done, all pieces).
    """
    if not isinstance(model.checkpoint, Checkpoint) or not pieces:
        return None
    graph = model.shipped_model(work, threads_for(model.parameters))
    return measure_quality(graph, pieces, source_rows(model.checkpoint, room), name=NAME, progress=progress)


def quality_warnings(model: ModelExport, quality: Quality | None, form: Quantization) -> tuple[str, ...]:
    """A sentence where the form costs too much quality, with the better form and its price."""
    if quality is None or not quality.bad or form == FP32:
        return ()
    whole, better = quality.whole, INT8 if form.bits == 4 else FP32
    if form.stored:
        return (
            f"the target with its file's codes loses {100 * whole.loss:.1f} % of perplexity, more than "
            f"{100 * MOST_LOSS:.0f} % ({whole.perplexity:.2f}, the source {whole.source_perplexity:.2f}): "
            "--quant fp32 computes in float32, and is larger and slower",
        )
    more = size_of(model.sites, model.tied, better) - size_of(model.sites, model.tied, form)
    search = "; --quant auto looks for the smallest form within 3 %" if form.bits == 4 else ""
    if isinstance(model.checkpoint, Checkpoint) and model.checkpoint.gguf and model.checkpoint.gguf.quantized:
        search = "; --quant auto keeps the codes of the file"
    return (
        f"the target as {form.name} loses {100 * whole.loss:.1f} % of perplexity, more than "
        f"{100 * MOST_LOSS:.0f} % ({whole.perplexity:.2f}, the source {whole.source_perplexity:.2f}): "
        f"--quant {better.name} is more accurate and takes {more / 1e6:.0f} MB more{search}",
    )
