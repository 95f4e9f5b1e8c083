"""The bundles of the measurements: made once in a work directory, from the starter models or at random."""

import json
import shutil
from pathlib import Path

from benchmarks.growth.apart import apart
from benchmarks.startup import STARTERS, small_checkpoint
from omnidraft.runtime.session.api import LoadedBundle, load_bundle

WIDTH = 64  # of random models


def starter(work: Path, max_length: int | None = None) -> LoadedBundle:
    """starter-a in fp32 and its drafter in int8; loaded on one thread, with the recorded costs.

    Args:
        work: the directory of bundles.
        max_length: positions of the context; None for that of the models. A longer one than that gives the
            same work and no sensible text: the rotary embedding is computed for any position.
    """
    place = work / ("starter-a" if max_length is None else f"starter-a-{max_length}")
    if not place.exists():
        apart(_make_starter, work, place, max_length)
    return load_bundle(place, threads=1, measure="never")


def random_target(work: Path, vocab_size: int) -> LoadedBundle:
    """A random target with a vocabulary of some size, most of whose ids have no bytes, and the drafter."""
    place = work / f"random-{vocab_size}"
    if not place.exists():
        apart(_make_random, work, place, vocab_size)
    return load_bundle(place, threads=1, measure="never")


def _make_starter(work: Path, place: Path, max_length: int | None) -> None:
    roles = {role: STARTERS / role for role in ("a", "drafter")}
    if max_length is not None:
        roles = {role: _longer(path, work, max_length) for role, path in roles.items()}
    _export(roles["a"], roles["drafter"], place, max_length)


def _make_random(work: Path, place: Path, vocab_size: int) -> None:
    checkpoint = small_checkpoint(STARTERS / "a", vocab_size, work / f"checkpoint-{vocab_size}", WIDTH)
    _export(checkpoint, STARTERS / "drafter", place)
    shutil.rmtree(checkpoint)


def _longer(checkpoint: Path, work: Path, max_length: int) -> Path:
    """Copy a checkpoint, and raise the number of positions that its config.json allows."""
    copy = work / f"{checkpoint.name}-{max_length}-checkpoint"
    shutil.copytree(checkpoint, copy, dirs_exist_ok=True)
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config["max_position_embeddings"] = max_length
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return copy


def _export(target: Path, drafter: Path, place: Path, max_length: int | None = None) -> None:
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantize import FP32, INT8

    export_bundle(str(target), str(drafter), place, Options(FP32, INT8, max_length))
