"""Unpack an archive: every hash is checked, and a directory takes its name when whole. spec/16-archive.md."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from omnidraft.errors import ArchiveError, ClaimError, reason
from omnidraft.runtime.archive.archive import Archive, ByteProgress, checked_pieces
from omnidraft.runtime.bundle.hashes import file_sha256
from omnidraft.runtime.bundle.replaceable import refusal_to_replace
from omnidraft.runtime.disk.read_file import open_file
from omnidraft.runtime.disk.whole_directory import new_directory, recover, sync_tree, take_name
from omnidraft.runtime.parts.drafter_address import DRAFTER, SHARED
from omnidraft.runtime.parts.pack_index import ONLY

_SPARE = 1 << 20  # bytes for directories
_ELSEWHERE = "choose another place"


def unpack(
    archive: Archive, out: Path, overwrite: bool = False, progress: ByteProgress = lambda *_: None
) -> Path:
    """Unpack an archive.

    Args:
        out: the directory of the bundle; for a drafter alone, the directory that bundles are in.
        overwrite: replace a bundle that exists.
        progress: called after each piece that was written.

    Returns:
        The directory that was written: `out`, or `drafters/ADDRESS` below it.

    Raises:
        ArchiveError: a file is not the one of the manifest, the place exists, the space is too little, or the
            place cannot be written. Nothing is left of a directory that is not whole.
    """
    if archive.index.drafter == ONLY:
        place = out / SHARED / archive.address
        refuse_link(place)
        refuse_link(place.parent)
        recover(place)
        if place.exists():
            _complete(archive, place, progress)
            return place
    else:
        place = out
        _refuse_existing(place, overwrite)
    with _whole(archive, place) as work:
        _write_files(archive, work, archive.files, progress)
        for name, data in archive.beside.items() if place is out else ():
            with _new_file(work / name) as file:
                file.write(data)
        sync_tree(work)
        if place is out and overwrite:
            _refuse_existing(place, overwrite)  # something may have been put there meanwhile
        take_name(work, place, replaces=place is out and overwrite)
    return place


def refuse_link(path: Path) -> None:
    """Refuse a link where a shared drafter is kept; no bundle would read through it."""
    if path.is_symlink():
        raise ArchiveError(
            f"{path} is a link, and a shared drafter is never behind one", _ELSEWHERE, "outside"
        )


def _refuse_existing(out: Path, overwrite: bool) -> None:
    """Refuse a place that exists; what a killed process left is put right first."""
    try:
        recover(out)
    except OSError as error:
        raise _unwritable(out, error) from None
    if not os.path.lexists(out):
        return
    if not overwrite:
        raise ArchiveError(f"{out} exists already", f"{_ELSEWHERE} or delete it first", "unwritable")
    if refusal := refusal_to_replace(out):
        raise ArchiveError(*refusal, "unwritable")


@contextmanager
def _whole(archive: Archive, place: Path) -> Iterator[Path]:
    """A temporary directory beside the place, where the archive has room."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(place.parent).free
        if free < archive.total + _SPARE:
            raise ArchiveError(
                f"{archive.path} needs {archive.total} bytes and {place.parent} has {free} left",
                f"free some space or {_ELSEWHERE}",
                "space",
            )
        with new_directory(place) as work:
            yield work
    except (OSError, ClaimError) as error:
        raise _unwritable(place, error) from None


def _unwritable(place: Path, error: Exception) -> ArchiveError:
    if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
        return ArchiveError(f"{place} was written by another process meanwhile", "run it again", "unwritable")
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return ArchiveError(
        f"{place} cannot be written ({reason(error)})",
        f"free some space or {_ELSEWHERE}" if full else _ELSEWHERE,
        "space" if full else "unwritable",
    )


def _write_files(archive: Archive, work: Path, names: list[str], progress: ByteProgress) -> None:
    """Write files that the manifest lists; of a drafter alone, without `drafter/` in their paths."""
    done, total = 0, sum(archive.entries[name].size for name in names)
    with open_file(archive.path) as file:
        for name in names:
            with _new_file(work / _below(archive, name)) as out:
                for piece in checked_pieces(archive, file, name):
                    out.write(piece)
                    done += len(piece)
                    progress(done, total)


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A new file, flushed to the disk at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "xb") as out:
        yield out
        out.flush()
        os.fsync(out.fileno())


def _below(archive: Archive, name: str) -> str:
    """The path of a file below the directory that is written."""
    return name[len(DRAFTER) :] if archive.index.drafter == ONLY else name


def _complete(archive: Archive, place: Path, progress: ByteProgress) -> None:
    """Add the files that a shared drafter lacks, or has damaged; each takes its name when it is whole."""
    targets = {name: place / _below(archive, name) for name in archive.files}
    for target in targets.values():
        for path in (target, *target.parents[: len(target.relative_to(place).parts) - 1]):
            refuse_link(path)
    lacking = [name for name, target in targets.items() if not _is_there(archive, target, name)]
    with _whole(archive, place) as work:
        _write_files(archive, work, lacking, progress)
        for name in lacking:
            targets[name].parent.mkdir(parents=True, exist_ok=True)
            os.replace(work / _below(archive, name), targets[name])
        sync_tree(place)


def _is_there(archive: Archive, file: Path, name: str) -> bool:
    record = archive.records[name]
    try:
        return file.stat().st_size == record.bytes and file_sha256(file) == record.sha256
    except OSError:
        return False
