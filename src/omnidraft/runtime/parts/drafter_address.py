"""The address of a drafter that bundles share: a digest of its files, from the manifest alone.

spec/16-archive.md, "A shared drafter".
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

DRAFTER = "drafter/"  # the files of the drafter begin with this
SHARED = "drafters"  # the directory beside the bundles
_HEADER = "omnidraft.drafter 1\n"


class FileRecord(Protocol):
    """Size and hash of a file in a manifest."""

    @property
    def sha256(self) -> str: ...
    @property
    def bytes(self) -> int: ...


def drafter_address(files: Mapping[str, FileRecord]) -> str:
    """SHA-256 over a line for each file below `drafter/`, in the order of the bytes of their names."""
    names = sorted((name for name in files if name.startswith(DRAFTER)), key=str.encode)
    lines = [f"{files[name].sha256} {files[name].bytes} {name}\n" for name in names]
    return hashlib.sha256("".join([_HEADER, *lines]).encode()).hexdigest()


def shared_place(bundle: Path, address: str) -> Path:
    """The directory of a shared drafter: beside the directory that a bundle really is in."""
    return Path(os.path.realpath(bundle)).parent / SHARED / address
