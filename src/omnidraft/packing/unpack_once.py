"""Run an archive of `omnidraft pack` on a desktop: it is unpacked once, into the user's cache directory.

An archive is named by its manifest, its signature and its index, which hold the hash of every file.
"""

import errno
import hashlib
import os
import re
import shutil
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import ArchiveError, BundleError, reason
from omnidraft.runtime.archive.archive import Archive, ByteProgress
from omnidraft.runtime.archive.unpack import unpack
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.replaceable import refusal_to_replace
from omnidraft.runtime.disk.own_directory import is_own_directory
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.parts.pack_index import WITH, WITHOUT

if sys.platform != "win32":  # Windows: an open file cannot be replaced or deleted there
    import fcntl

VARIABLE = "OMNIDRAFT_CACHE"  # names another directory
KEPT = 4  # archives that stay unpacked; those that were used longest ago are deleted


@dataclass(frozen=True)
class UnpackedOnce:
    """Where an archive is unpacked."""

    place: Path  # the directory of the bundle
    is_new: bool  # whether it was unpacked now


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
    """
    root = cache_directory()
    by_hand = f"run `omnidraft unpack {archive.path} -o DIRECTORY`"
    if archive.index.drafter != WITH:
        what = "no drafter" if archive.index.drafter == WITHOUT else "the drafter alone"
        remedy = f"{by_hand}, and unpack the other part beside it"
        raise ArchiveError(f"{archive.path} holds {what}, so it does not run by itself", remedy, "left_out")
    if root is None:
        raise ArchiveError("this system names no directory for caches", f"set {VARIABLE}, or {by_hand}")
    try:
        return _unpack_once(archive, _Cache(root), progress)
    except OSError as error:
        raise ArchiveError(
            f"{root} cannot be written ({reason(error)})", f"set {VARIABLE}, or {by_hand}", "unwritable"
        ) from None


class _Cache:
    """The directory of unpacked archives, and the locks on them; a process holds those that it uses.

    Raises:
        OSError: it cannot be made, or is not this user's alone to write.
    """

    def __init__(self, root: Path) -> None:
        self.archives, self._locks = root / "archives", root / "locks"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in (root, self.archives, self._locks):
            each.mkdir(mode=0o700, exist_ok=True)
            if not is_own_directory(each):
                raise OSError(errno.EPERM, f"{each} is a link, or is not yours alone to write")

    def check(self, key: str, *, waits: bool = True) -> int:
        """Lock an archive while it is checked, unpacked or deleted: one process does so at a time."""
        return lock(self._locks / f"{key}.check", alone=True, waits=waits)

    def use(self, key: str, *, alone: bool = False) -> int:
        """Lock an archive while it is used, as many processes do; alone while it is replaced or deleted."""
        return lock(self._locks / f"{key}.use", alone=alone, waits=False)

    def delete(self, key: str) -> None:
        """Delete an archive, unless a process uses it or a user has put files into it."""
        place = self.archives / key
        with ExitStack() as locks, suppress(BlockingIOError):
            locks.callback(os.close, self.check(key, waits=False))
            locks.callback(os.close, self.use(key, alone=True))
            if refusal_to_replace(place) is None:
                shutil.rmtree(place, ignore_errors=True)
                for name in ("check", "use"):
                    (self._locks / f"{key}.{name}").unlink(missing_ok=True)


_USED: dict[Path, int] = {}  # handles of the locks on what this process uses, until it ends


def _unpack_once(archive: Archive, cache: _Cache, progress: ByteProgress) -> UnpackedOnce:
    key = _key(archive)
    place = cache.archives / key
    check = cache.check(key)
    try:
        if place in _USED:
            os.close(_USED.pop(place))
        is_new = not _is_whole(archive, place)
        if is_new:
            _replace(archive, cache, place, progress)
        _USED[place] = cache.use(key)
    finally:
        os.close(check)
    with suppress(OSError):  # the time of the last use
        os.utime(place)
    _delete_oldest(cache, place)
    return UnpackedOnce(place, is_new)


def _replace(archive: Archive, cache: _Cache, place: Path, progress: ByteProgress) -> None:
    try:
        alone = cache.use(place.name, alone=True)
    except BlockingIOError:
        raise ArchiveError(
            f"{place} is damaged and in use", "end the programs that use it", "in_use"
        ) from None
    try:
        shutil.rmtree(place, ignore_errors=True)
        unpack(archive, place, progress=progress)
    finally:
        os.close(alone)


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


def _delete_oldest(cache: _Cache, place: Path) -> None:
    """Delete the archives beside a place that were used longest ago, where there are too many."""
    with suppress(OSError):
        others = [each for each in cache.archives.iterdir() if re.fullmatch("[0-9a-f]{32}", each.name)]
        others.sort(key=lambda each: (each != place, -each.lstat().st_mtime_ns))
        for each in others[KEPT:]:
            cache.delete(each.name)


def lock(path: Path, *, alone: bool, waits: bool = True) -> int:
    """Lock a file, made where it is absent.

    Args:
        alone: no other process holds it meanwhile; else all may that do not ask to be alone.

    Returns:
        An open handle, which holds the lock until it is closed.
    """
    if sys.platform == "win32":
        return os.open(os.devnull, os.O_RDONLY)
    kind = (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if waits else fcntl.LOCK_NB)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, kind)
            if _is_still_there(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # who held it alone has deleted it


def _is_still_there(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False
