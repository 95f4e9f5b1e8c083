"""Run an archive of `omnidraft pack` on a desktop: it is unpacked once, into the user's cache directory.

An archive is named by its manifest, its signature and its index, which hold the hash of every file.
"""

import hashlib
import os
import re
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import ArchiveError, BundleError
from omnidraft.runtime.archive.archive import Archive, ByteProgress
from omnidraft.runtime.archive.unpack import unpack
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.parts.pack_index import WITH, WITHOUT

VARIABLE = "OMNIDRAFT_CACHE"  # names another directory
KEPT = 4  # archives that stay unpacked; those that were used longest ago are deleted


@dataclass(frozen=True)
class UnpackedOnce:
    """Where an archive is unpacked.

    Attributes:
        place: the directory of the bundle.
        is_new: whether it was unpacked now.
    """

    place: Path
    is_new: bool


def cache_directory() -> Path | None:
    """The user's directory for files that can be made again; None where the system names no place for it."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    try:
        if sys.platform == "win32":
            local = os.environ.get("LOCALAPPDATA")
            return Path(local) / "omnidraft" / "cache" if local else None
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "omnidraft"
        base = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "omnidraft"
    except RuntimeError:  # the user has no home directory
        return None


def unpack_once(archive: Archive, progress: ByteProgress = lambda *_: None) -> UnpackedOnce:
    """Unpack an archive into the cache directory, unless it is there unchanged.

    Args:
        archive: from `open_archive`.
        progress: called after each piece that was written.

    Raises:
        ArchiveError: the archive holds a part of a bundle, a file of it is damaged, or the cache directory
            cannot be written.
    """
    root = cache_directory()
    by_hand = f"run `omnidraft unpack {archive.path} -o DIRECTORY`"
    if archive.index.drafter != WITH:
        what = "no drafter" if archive.index.drafter == WITHOUT else "the drafter alone"
        remedy = f"{by_hand}, and unpack the other part beside it"
        raise ArchiveError(f"{archive.path} holds {what}, so it does not run by itself", remedy, "left_out")
    if root is None:
        raise ArchiveError("this system names no directory for caches", f"set {VARIABLE}, or {by_hand}")
    place = root / "archives" / _key(archive)
    is_new = not _is_whole(archive, place)
    if is_new:
        _make_private(root)
        if not (place / MANIFEST).is_file():
            shutil.rmtree(place, ignore_errors=True)
        unpack(archive, place, overwrite=True, progress=progress)
    with suppress(OSError):  # the time of the last use
        os.utime(place)
    _delete_oldest(place)
    return UnpackedOnce(place, is_new)


def _key(archive: Archive) -> str:
    """32 hexadecimal digits of the files that say what an archive holds."""
    digest = hashlib.sha256()
    for name, data in archive.beside.items():
        digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:32]


def _is_whole(archive: Archive, place: Path) -> bool:
    """Whether a place has the archive's own manifest, and the files of it."""
    try:
        if any(read_whole(place / name, len(data)) != data for name, data in archive.beside.items()):
            return False
        open_bundle(place, verify="stamp")
    except (OSError, BundleError):
        return False
    return True


def _make_private(root: Path) -> None:
    """Make the directory, readable by its user alone; what cannot be made is refused by `unpack`."""
    with suppress(OSError):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)


def _delete_oldest(place: Path) -> None:
    """Delete the archives beside a place that were used longest ago, where there are too many."""
    with suppress(OSError):
        others = [each for each in place.parent.iterdir() if re.fullmatch("[0-9a-f]{32}", each.name)]
        others.sort(key=lambda each: (each != place, -each.stat().st_mtime_ns))
        for each in others[KEPT:]:
            shutil.rmtree(each, ignore_errors=True)
