"""Write the target in the form that was asked for, or find its form; measure what the form costs."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.export.measure_quality import exported_quality
from omnidraft.export.model_export import ModelExport
from omnidraft.export.options import Options
from omnidraft.export.write_model import WriteJob, counted, product_factors, write_model
from omnidraft.sample_texts import TextPiece
from omnidraft.text_quality import AIM, Quality

if TYPE_CHECKING:
    from omnidraft.export.choose.search import FormSearch, Trial
    from omnidraft.export.quantize.coded import Factors
    from omnidraft.export.quantize.quantization import Quantization


@dataclass(frozen=True)
class WrittenTarget:
    """A target that was written."""

    options: Options  # those of the export, with the form that the target has
    quality: Quality | None  # of its text; None for an adopted graph
    reference_bytes: int  # bytes of weights of the float32 graph
    # the forms that were tried in torch before; empty where the form was given
    trials: tuple[Trial, ...] = ()


def write_target(model: ModelExport, job: WriteJob, pieces: Sequence[TextPiece]) -> WrittenTarget:
    """Write the target as `job` says, and measure the graph beside its source.

    With `options.search`, the next form is written where the graph loses more than the search found.
    """
    if not job.options.search or not isinstance(model.checkpoint, Checkpoint) or not pieces:
        return _written(model, replace(job, options=replace(job.options, search=False)), pieces)
    search = _search(model, job, pieces)
    written = None
    for form in search.candidates():
        chosen = replace(job.options, quantization=form, search=False)
        search.forms.forget()  # a graph is written and run meanwhile, which takes memory
        written = _written(model, replace(job, options=chosen), pieces)
        if written.quality is None or written.quality.whole.loss <= AIM:
            break
    assert written is not None, "the last candidate is float32"
    return replace(written, trials=tuple(search.trials))


def _written(model: ModelExport, job: WriteJob, pieces: Sequence[TextPiece]) -> WrittenTarget:
    shutil.rmtree((job.work / model.graph).parent, ignore_errors=True)  # of a form that was written before
    reference_bytes = write_model(model, job)
    told = counted(job, "measure the target's text", "pieces")
    quality = exported_quality(job.work, model, pieces, job.room, told)
    return WrittenTarget(job.options, quality, reference_bytes)


def _search(model: ModelExport, job: WriteJob, pieces: Sequence[TextPiece]) -> FormSearch:
    """The search for the form of a target."""
    from omnidraft.checkpoints.thin_model import thin_model
    from omnidraft.export.choose.search import FormSearch
    from omnidraft.export.choose.torch_forms import TorchForms
    from omnidraft.export.graph.skeleton import skeleton

    checkpoint = model.checkpoint
    assert isinstance(checkpoint, Checkpoint)
    job.stage("trace the target")
    thin = thin_model(checkpoint)
    bare = skeleton(checkpoint, thin, job.max_length, lambda at: job.stage(f"trace the target, {at}"))
    sites = bare.weights.sites
    job.stage("measure the source's text")
    count = sum(math.prod(part.shape) for site in sites for part in site.parts)
    fits = job.room is None or 4 * count <= job.room  # the factors of all products are held for a trial

    def calibration(form: Quantization) -> Factors:
        return product_factors(model, job, thin, sites, form)

    forms = TorchForms(thin, sites, pieces, job.room)
    return FormSearch(forms, sites, thin.tied, count, calibration if fits else None, job.stage)
