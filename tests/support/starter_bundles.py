"""Exports of the starter models, for fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from support.places import STARTERS

if TYPE_CHECKING:
    from omnidraft.export.options import Options


def export_of(
    target: str, options: Options, progress: Callable[[str, int, int], None] = lambda *_: None
) -> Callable[[Path], None]:
    """A function that exports a starter target with the starter drafter into a directory."""

    def make(place: Path) -> None:
        from omnidraft.export.bundle import export_bundle

        place.parent.mkdir(parents=True, exist_ok=True)
        export_bundle(str(STARTERS / target), str(STARTERS / "drafter"), place, options, progress)

    return make
