"""Exports of the starter models, for fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from support.manifests import rewrite
from support.places import STARTERS

if TYPE_CHECKING:
    from omnidraft.export.options import Options

# Seconds. Measured costs differ from run to run, and with them what "auto" drafts, and whether it verifies
# blocks.
COSTS = {"target": [0.004 * (1 + 0.06 * n) for n in range(9)], "draft": 0.0006, "host": 0.0002}


def export_of(
    target: str, options: Options, progress: Callable[[str, int, int], None] = lambda *_: None
) -> Callable[[Path], None]:
    """A function that exports a starter target with the starter drafter into a directory, with `COSTS`."""

    def make(place: Path) -> None:
        from omnidraft.export.bundle import export_bundle

        place.parent.mkdir(parents=True, exist_ok=True)
        export_bundle(str(STARTERS / target), str(STARTERS / "drafter"), place, options, progress)
        rewrite(place, lambda manifest: manifest["costs"].update(COSTS))

    return make
