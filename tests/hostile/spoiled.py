"""Copies of a bundle that are spoiled: their files are linked, so that a copy costs nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omnidraft.runtime.bundle.manifest_file import MANIFEST, sealed
from omnidraft.runtime.session.api import load


class Copy:
    """A copy of a bundle in a folder, whose files can be replaced."""

    def __init__(self, bundle: Path, place: Path) -> None:
        self.place = place
        shutil.copytree(bundle, place, copy_function=os.link)
        self.manifest: dict[str, Any] = json.loads((place / MANIFEST).read_text())

    def write(self, name: str, data: bytes) -> Copy:
        """Replace a file, and list it as it is now."""
        path = self.place / name
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        self.manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        return self

    def change(self, change: Callable[[dict[str, Any]], object]) -> Copy:
        """Change the manifest."""
        change(self.manifest)
        return self

    def seal(self) -> Path:
        """Write the manifest; the folder."""
        (self.place / MANIFEST).unlink(missing_ok=True)
        (self.place / MANIFEST).write_bytes(sealed(self.manifest))
        return self.place


def answer(place: Path, **settings: Any) -> str:
    """Load a bundle and generate a little."""
    settings = {"max_new_tokens": 12, "num_draft_tokens": 4, "seed": 1} | settings
    return load(place, measure="never").generate("How many legs do 3 cats have?", **settings).finish().text
