"""Bundles whose manifest was changed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omnidraft.runtime.bundle.manifest_file import MANIFEST, sealed


def rewrite(bundle: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest and seal it again, as someone would who means it."""
    manifest = json.loads((bundle / MANIFEST).read_text())
    change(manifest)
    (bundle / MANIFEST).write_bytes(sealed(manifest))
