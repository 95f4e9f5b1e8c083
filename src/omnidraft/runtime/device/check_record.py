"""The last full check of a bundle's files on this device, by their stamps: spec/08-phones.md.

A stamp detects damage by a copy, and every ordinary way to change or replace a file. It does not detect
somebody who may write the file and hides it (by the clock, by the disk below the file system, on a file
system in memory by a mapped page), or bits that changed on the disk.
"""

import contextlib
import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from omnidraft.runtime.device.state_directory import read_record, record_key, write_record
from omnidraft.runtime.disk.json_fields import hexadecimal, mapping
from omnidraft.runtime.disk.read_file import open_file
from omnidraft.runtime.disk.strict_json import dump, parse

KIND = "checked"
FORMAT, VERSION = "omnidraft.checked", 1
SETTLED = 3_000_000_000  # ns: times of a file system may be coarse; FAT has steps of 2 s


class Stamp(NamedTuple):
    """What a file system says of a file.

    Attributes:
        modified: ns, when the content last changed; a program can set it.
        changed: ns, when the entry last changed, which no program can set; on Windows when it was created.
        inode, device: 0 where the system has none.
    """

    size: int
    modified: int
    changed: int
    inode: int
    device: int

    @property
    def times(self) -> tuple[int, int, int]:
        """What stays equal while a program runs; some file systems give another inode number each time."""
        return self.size, self.modified, self.changed


def stamp_of(file: Path) -> Stamp:
    """The stamp of a file."""
    status = file.stat()
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


def write_back(file: Path) -> None:
    """Write to the disk what programs changed through mapped pages, before the stamp is taken.

    The times of a file change when a page of it is written that is not waiting for the disk. So a later
    change through a page that was mapped before is seen, but not on a file system in memory (tmpfs).
    """
    if sys.platform == "win32":  # only who may write a file can do so
        return
    with contextlib.suppress(OSError), open_file(file) as opened:
        os.fsync(opened.fileno())


def was_checked(path: Path, seal: str, stamps: Mapping[str, Stamp]) -> bool:
    """Whether all files had these stamps when they were last checked in full."""
    data = read_record(KIND, _key(path, seal))
    try:
        value = {} if data is None else mapping(parse(data))
        return (
            value.get("format") == FORMAT
            and value.get("version") == VERSION
            and hexadecimal(value.get("seal"), 64) == seal
            and hexadecimal(value.get("stamps"), 64) == digest_of(stamps)
        )
    except ValueError:
        return False


def remember_check(path: Path, seal: str, stamps: Mapping[str, Stamp], now: int) -> bool:
    """Record that all files were hashed and were right.

    A file that changed shortly before is not recorded: it could change again within one step of the clock,
    and keep its stamp.

    Args:
        stamps: of its files, from before they were hashed.
        now: ns since 1970, from before the stamps were taken.

    Returns:
        whether the record was written.
    """
    last = max(stamp.modified if sys.platform == "win32" else stamp.changed for stamp in stamps.values())
    if last > now - SETTLED:
        return False
    record = {"format": FORMAT, "version": VERSION, "seal": seal, "stamps": digest_of(stamps)}
    return write_record(KIND, _key(path, seal), dump(record))


def digest_of(stamps: Mapping[str, Stamp]) -> str:
    """SHA-256 of all stamps, a line each, in the order of the names."""
    lines = (f"{name}\0{' '.join(map(str, stamps[name]))}\n" for name in sorted(stamps))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _key(path: Path, seal: str) -> str:
    return record_key(os.path.realpath(path), seal)
