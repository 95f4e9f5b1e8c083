"""The starter models: one drafter, and two targets with other vocabularies.

They are not part of the package: they are in `examples/starters` of a checkout.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import BundleError, SettingError
from omnidraft.learning.online.profiles import profile_of
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter_file import read_adapter

STARTERS = ("a", "b")  # the targets


@dataclass(frozen=True)
class StarterPair:
    """A starter target with its drafter.

    Attributes:
        name: of the target.
        untrained: bundle with the drafter as it is.
        learned: bundle with the drafter's learned adapter folded in.
        cache: file of the learned n-grams.
    """

    name: str
    untrained: Path
    learned: Path
    cache: Path


def find_starters(place: Path | None = None) -> Path:
    """The directory of the starter models.

    Args:
        place: the directory; when None, `examples/starters` in the working directory or above it, then in the
            checkout that this module is in.

    Raises:
        SettingError: no starter models are there.
    """
    if place is not None:
        if not _has_starters(place):
            raise SettingError(
                f"--starters {place} does not hold the starter models",
                "give the directory examples/starters of a checkout",
            )
        return place
    above = (Path.cwd(), *Path.cwd().parents, Path(__file__).resolve().parents[3])
    for starters in (directory / "examples/starters" for directory in above):
        if _has_starters(starters):
            return starters
    raise SettingError(
        f"the starter models are not part of the package, and {Path.cwd()} is not in a checkout of omnidraft",
        "run this in a checkout, or give its examples/starters with --starters",
    )


def _has_starters(place: Path) -> bool:
    return all((place / name / "config.json").is_file() for name in ("drafter", *STARTERS))


def starter(name: str) -> Path:
    """The directory of one starter model: drafter, a or b."""
    return find_starters() / name


def export_starters(
    place: Path, progress: Callable[[str, int, int], None], starters: Path | None = None
) -> list[StarterPair]:
    """Export both starter pairs, and both again with the learned adapter folded into the drafter.

    The adapter is folded in because the places for adapters in a graph cost this small drafter much of its
    time. Bundles that exist and are whole are kept.

    Args:
        place: directory of the bundles.
        progress: called with (step, done, total).
        starters: see `find_starters`.
    """
    from omnidraft.training.merge import merge

    models = find_starters(starters)
    pairs = []
    for name in STARTERS:
        target = models / name
        untrained = _exported(target, models / "drafter", place / f"starter-{name}", progress)
        profile = profile_of(models / "learned", open_bundle(untrained))
        drafter = place / f"drafter-learned-{name}"
        if not drafter.exists():
            merge(str(models / "drafter"), read_adapter(profile.adapter), drafter)
        learned = _exported(target, drafter, place / f"starter-{name}-learned", progress)
        pairs.append(StarterPair(f"starter-{name}", untrained, learned, profile.cache))
    return pairs


def _exported(target: Path, drafter: Path, bundle: Path, progress: Callable[[str, int, int], None]) -> Path:
    """The bundle of a pair; exported where it is absent or damaged."""
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantize import FP32, INT8

    try:
        open_bundle(bundle)
    except BundleError:
        settings = Options(
            FP32, drafter_quantization=INT8, overwrite=True, lora_drafter=False, head_blocks=None
        )
        export_bundle(str(target), str(drafter), bundle, settings, progress)
    return bundle
