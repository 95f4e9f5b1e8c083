"""A private directory of small records, which the device can lose at any time: spec/08-phones.md.

A record that is absent, damaged or larger than it may be is the same as none, and a directory that cannot be
written remembers nothing. No function here raises for either.
"""

import contextlib
import hashlib
import math
import os
import re
import sys
import time
from pathlib import Path

from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.own_directory import is_own_directory
from omnidraft.runtime.disk.read_file import read_whole

VARIABLE = "OMNIDRAFT_STATE"  # names another directory
MOST_RECORDS = 256  # of each kind; the oldest ones are deleted
MOST_BYTES = 1 << 14  # of a record
_END = ".json"
_NAME = re.compile(rf"[0-9a-f]{{32}}{re.escape(_END)}")  # of a record


def state_directory() -> Path | None:
    """The directory, which need not exist; None where the system names no place for it."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    try:
        if sys.platform == "win32":
            local = os.environ.get("LOCALAPPDATA")
            return Path(local) / "omnidraft" if local else None
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "omnidraft"
        base = os.environ.get("XDG_STATE_HOME", "")
        return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "omnidraft"
    except RuntimeError:  # the user has no home directory
        return None


def record_key(*parts: str) -> str:
    """The name of a record: 32 hexadecimal digits of the SHA-256 of texts, each with a zero byte after it."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:32]


def read_record(kind: str, key: str, most_age: float = math.inf) -> bytes | None:
    """The bytes of a record; None where there is none that may be used.

    Args:
        most_age: seconds since the record was written; an older one is not used.
    """
    root = state_directory()
    if root is None or not _is_private(root, kind):
        return None
    path = root / kind / f"{key}{_END}"
    try:
        is_old = time.time() - path.stat().st_mtime > most_age
        return None if is_old else read_whole(path, MOST_BYTES)
    except OSError:
        return None


def write_record(kind: str, key: str, data: bytes) -> bool:
    """Replace a record, and delete the oldest ones where there are too many.

    Returns:
        whether the record was written; else the directory cannot be written, or is not this user's alone.
    """
    root = state_directory()
    if root is None or len(data) > MOST_BYTES:
        return False
    place = root / kind
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(root, kind):
            return False
        write_atomically(place / f"{key}{_END}", data)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return False
    _delete_oldest(place)
    return True


def delete_record(kind: str, key: str) -> None:
    """Delete a record, where there is one."""
    root = state_directory()
    if root is not None and _is_private(root, kind):
        with contextlib.suppress(OSError):
            (root / kind / f"{key}{_END}").unlink()


def _is_private(root: Path, kind: str) -> bool:
    """Whether the directory of a kind is this user's alone, in one that no other user can write."""
    return is_own_directory(root) and is_own_directory(root / kind, private=True)


def _delete_oldest(place: Path) -> None:
    """Delete the oldest records where there are too many; what has another name is not a record."""
    with contextlib.suppress(OSError):
        found = [
            each
            for each in os.scandir(place)
            if _NAME.fullmatch(each.name) and not each.is_dir(follow_symlinks=False)
        ]
        records = [(each.stat(follow_symlinks=False).st_mtime_ns, each.path) for each in found]
        for _, path in sorted(records)[: max(0, len(records) - MOST_RECORDS)]:
            os.unlink(path)
