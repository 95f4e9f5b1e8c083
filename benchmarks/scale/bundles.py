"""Bundles of widened starter targets, and the drafters that are measured with them.

A bundle's drafter takes adapters: so the learned drafter and the one that is never right share the bundle,
and its target is in memory once.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.scale.widen import SCALES, widen
from omnidraft.checkpoints.checkpoint import read_checkpoint
from omnidraft.checkpoints.fingerprint import fingerprint
from omnidraft.commands.starters import find_starters
from omnidraft.commands.terminal.progress import progress_bar
from omnidraft.errors import BundleError
from omnidraft.learning.online.profiles import Profile
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.models.adapter import Adapter

CONTEXT = 1024  # tokens of the KV buffers; the prompts and texts have less
NOISE = 3.0  # size of a hostile adapter's products; those of the weights are near 1


def make_bundle(work: Path, target: str, scale: str, form: str) -> Bundle:
    """The bundle of a widened starter; a bundle that is there is taken.

    Args:
        work: directory of checkpoints and bundles.
        target: a or b.
        scale: one of `SCALES`.
        form: of the target's weights, as `--quant` names it; the drafter is in int8 in all.
    """
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantization import Choices, with_choices

    models = find_starters()
    checkpoint, directory = work / f"{target}-{scale}", work / f"{target}-{scale}-{form}"
    try:
        return open_bundle(directory)
    except BundleError:
        if not (checkpoint / "config.json").exists():
            widen(models / target, SCALES[scale], checkpoint)
        weights, int8 = with_choices([form, "int8"], Choices())  # as `omnidraft export` takes them
        options = Options(weights, int8, max_length=CONTEXT, overwrite=True)
        with progress_bar(f"export {directory.name}") as bar:
            export_bundle(str(checkpoint), str(models / "drafter"), directory, options, bar.stage)
    return open_bundle(directory)


def learned(target: str) -> Profile:
    """The adapter and the n-grams that the starter drafter learned from the answers of a starter target."""
    starters = find_starters()
    return Profile(starters / "learned" / fingerprint(read_checkpoint(str(starters / target)))[:12])


def hostile(learned: Adapter) -> Adapter:
    """An adapter of the same shapes that makes noise of the drafter: its drafts are right by chance alone."""
    rng = np.random.default_rng(0)

    def noise(rows: int, columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        return rng.normal(0.0, math.sqrt(NOISE / rows), (rows, columns)).astype(np.float32)

    tensors = {site: (noise(*a.shape), noise(*b.shape)) for site, (a, b) in learned.tensors.items()}
    return replace(learned, tensors=tensors)
