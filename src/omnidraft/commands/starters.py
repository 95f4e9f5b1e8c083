"""The starter models in `examples/starters` of a checkout, and the bundle that the guides use."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.errors import BundleError, SettingError
from omnidraft.learning.online.profiles import Profile
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.sample_prompts import word_problems

if TYPE_CHECKING:
    from omnidraft.export.options import Options

STARTERS = ("a", "b")  # the targets
WHOLE = "my-bundle"  # name of the bundle that the guides use
CACHES = ("learned.odc", "phone.odc", "laptop.odc")  # names of n-gram caches that the guides use
QUESTIONS = 40  # word problems that the guides learn from


def find_starters() -> Path:
    """The directory of the starter models: `examples/starters` in the working directory or above it, then in
    the checkout that this module is in.

    Raises:
        SettingError: no starter models are there.
    """
    above = (Path.cwd(), *Path.cwd().parents, Path(__file__).resolve().parents[3])
    for starters in (directory / "examples/starters" for directory in above):
        if all((starters / name / "config.json").is_file() for name in ("drafter", *STARTERS)):
            return starters
    raise SettingError(
        f"the starter models are not part of the package, and {Path.cwd()} is not in a checkout of omnidraft",
        "run this in a checkout",
    )


def starter(name: str) -> Path:
    """The directory of one starter model: drafter, a or b."""
    return find_starters() / name


def export_whole(place: Path, progress: Callable[[str, int, int], None], target: Path | None = None) -> Path:
    """Export the one bundle that the guides use, `my-bundle`.

    It has the target's own codes, or starter a in float32, and the drafter in int8 with places for adapters
    and a training step. A bundle of the same models that is whole is kept.

    Args:
        target: a GGUF file; None for starter a.
    """
    from omnidraft.export.default_drafter import default_drafter
    from omnidraft.export.options import USUAL_RANK, Options
    from omnidraft.export.quantize.quantization import AS_STORED, FP32, INT8

    models = find_starters()
    form, drafter = (FP32, models / "drafter") if target is None else (AS_STORED, default_drafter())
    options = Options(form, drafter_quantization=INT8, overwrite=True, train_rank=USUAL_RANK)
    source = models / "a" if target is None else target
    return exported(source, drafter, place / WHOLE, progress, options)


def guide_files(place: Path, profile: Profile) -> None:
    """Put beside a bundle what the guides name: an adapter, n-grams and questions.

    Args:
        place: the directory; files of these names that are there stay.
        profile: what was learned for the bundle's target.
    """
    copies = {profile.adapter: [place / "mine.safetensors"], profile.cache: [place / name for name in CACHES]}
    for source, files in copies.items():
        for file in files:
            if source.is_file() and not file.exists():  # the user's own grow under these names
                shutil.copyfile(source, file)
    questions = word_problems(QUESTIONS, seed=1)
    for name, lines in (
        ("questions.txt", questions),
        ("questions.jsonl", [json.dumps({"question": question}) for question in questions]),
    ):
        if not (place / name).exists():
            (place / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def exported(
    target: Path,
    drafter: Path,
    bundle: Path,
    progress: Callable[[str, int, int], None],
    options: "Options",
) -> Path:
    """The bundle of a pair; exported where it is absent or damaged."""
    from omnidraft.export.bundle import export_bundle

    if not _is_whole(bundle, target, drafter):
        export_bundle(str(target), str(drafter), bundle, options, progress)
    return bundle


def _is_whole(bundle: Path, target: Path, drafter: Path) -> bool:
    from omnidraft.checkpoints.checkpoint import read_checkpoint
    from omnidraft.checkpoints.fingerprint import fingerprint

    try:
        found = open_bundle(bundle)
    except BundleError:
        return False
    pairs = (found.target, target), (found.drafter, drafter)
    return all(entry.fingerprint == fingerprint(read_checkpoint(str(path))) for entry, path in pairs)
