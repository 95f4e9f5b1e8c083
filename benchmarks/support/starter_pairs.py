"""The starter targets as bundles: with their drafter as it is, and with its learned adapter folded in."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from omnidraft.commands.starters import STARTERS, exported, find_starters
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantization import FP32, INT8
from omnidraft.learning.online.profiles import profile_of
from omnidraft.packing.share_drafter import share_drafter
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.training.merge import merge

BARE = Options(FP32, drafter_quantization=INT8, overwrite=True, lora_drafter=False)


@dataclass(frozen=True)
class StarterPair:
    """A starter target with its drafter.

    Attributes:
        learned: bundle with the drafter's learned adapter folded in.
        cache: file of the learned n-grams.
    """

    name: str
    untrained: Path
    learned: Path
    cache: Path


def export_starters(place: Path, progress: Callable[[str, int, int], None]) -> list[StarterPair]:
    """Export both starter pairs, and both again with the learned adapter folded into the drafter.

    The untrained drafter of both targets is the same, and they share it in `drafters`. The adapter is folded
    in because the places for adapters in a graph cost this small drafter much of its time. Bundles that exist
    and are whole are kept.

    Args:
        progress: called with (step, done, total).
    """
    models = find_starters()
    pairs = []
    for name in STARTERS:
        target = models / name
        untrained = exported(target, models / "drafter", place / f"starter-{name}", progress, BARE)
        share_drafter(untrained)
        profile = profile_of(models / "learned", open_bundle(untrained))
        drafter = place / f"drafter-learned-{name}"
        if not drafter.exists():
            merge(str(models / "drafter"), read_adapter(profile.adapter), drafter)
        learned = exported(target, drafter, place / f"starter-{name}-learned", progress, BARE)
        pairs.append(StarterPair(f"starter-{name}", untrained, learned, profile.cache))
    return pairs
