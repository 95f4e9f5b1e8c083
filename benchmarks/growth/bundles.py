"""The bundles of the measurements: made once in a work directory, from the starter models or at random."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.growth.process import apart
from benchmarks.startup import STARTERS, small_checkpoint
from omnidraft.runtime.session.api import LoadedBundle, load_bundle

WIDTH = 64  # of random models


def open_pair(work: Path, vocab_size: int | None = None, max_length: int | None = None) -> LoadedBundle:
    """A target in fp32 and the starter drafter in int8; loaded on one thread, with the recorded costs.

    Args:
        work: the directory of bundles.
        vocab_size: of a random target, most of whose ids have no bytes; None for starter-a.
        max_length: positions of the context; None for that of the models. A longer one than that gives the
            same work and no sensible text: the rotary embedding is computed for any position.
    """
    target = "starter-a" if vocab_size is None else f"random-{vocab_size}"
    place = work / (target if max_length is None else f"{target}-{max_length}")
    if not place.exists():
        apart(_make, place, vocab_size, max_length)
    return load_bundle(place, threads=1, measure="never")


def _make(place: Path, vocab_size: int | None, max_length: int | None) -> None:
    """Export a bundle, from checkpoints that are removed afterwards where they are made for it."""
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantize import FP32, INT8

    target, drafter = STARTERS / "a", STARTERS / "drafter"
    with TemporaryDirectory(dir=place.parent) as made:
        if vocab_size is not None:
            target = small_checkpoint(target, vocab_size, Path(made) / f"checkpoint-{vocab_size}", WIDTH)
        if max_length is not None:
            target, drafter = (_longer(each, Path(made), max_length) for each in (target, drafter))
        export_bundle(str(target), str(drafter), place, Options(FP32, INT8, max_length))


def _longer(checkpoint: Path, made: Path, max_length: int) -> Path:
    """Copy a checkpoint, and raise the number of positions that its config.json allows."""
    copy = made / f"{checkpoint.name}-{max_length}-checkpoint"
    shutil.copytree(checkpoint, copy)
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config["max_position_embeddings"] = max_length
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return copy
