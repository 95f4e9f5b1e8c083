"""Read the entries of an archive, strictly, from the first byte to the last. spec/16-archive.md."""

import io
import re
import struct
from typing import BinaryIO, NoReturn

from omnidraft.errors import ArchiveError
from omnidraft.runtime.archive.zip_layout import (
    CENTRAL,
    LOCAL,
    LOCAL_BYTES,
    MAX_ENTRIES,
    ArchiveEntry,
    central_directory,
)

MAX_NAME = 512
_DEVICE = "(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])"  # on Windows, with any ending
_PART = rf"(?!{_DEVICE}(?![A-Za-z0-9_+-]))[A-Za-z0-9_+-](?:[A-Za-z0-9._+-]*[A-Za-z0-9_+-])?"
_NAME = re.compile(f"{_PART}(?:/{_PART})*")
_ENCRYPTED, _DESCRIPTOR = 1 << 0 | 1 << 6 | 1 << 13, 1 << 3  # flags
_FULL = 0xFFFFFFFF
_ZIP64 = struct.pack("<HH", 1, 16)


def is_entry_name(name: str) -> bool:
    """Whether an entry may have a name: relative, ASCII, and a file on every system."""
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None


def read_entries(file: BinaryIO) -> list[ArchiveEntry]:
    """The entries of an archive, in order. The bytes of the files are not read.

    Raises:
        ArchiveError: with the name of the first fault.
    """
    size = file.seek(0, io.SEEK_END)
    entries: list[ArchiveEntry] = []
    names: set[str] = set()
    at = 0
    while (start := _read(file, at, 4)) != CENTRAL or not entries:
        _check_start(start, entries)
        entry = _entry(file, at, size)
        _check_name(entry.name, names)
        if len(entries) == MAX_ENTRIES:
            _refuse("limits", f"it has more than {MAX_ENTRIES} entries")
        if entry.end > size:
            _refuse("truncated", f"{entry.name} ends at byte {entry.end} and the archive at {size}")
        entries.append(entry)
        at = entry.end
    expected = central_directory(entries, at)
    rest = _read(file, at, len(expected) + 1)
    if rest != expected:
        if expected.startswith(rest):
            _refuse("truncated", "its directory is cut short")
        if rest.startswith(expected):
            _refuse("trailing_bytes", "it has bytes behind its end")
        _refuse("directory", "its directory differs from its entries")
    return entries


def _check_start(start: bytes, entries: list[ArchiveEntry]) -> None:
    """Check the first four bytes of a local header."""
    if start == LOCAL:
        return
    if not entries and not LOCAL.startswith(start):
        _refuse("not_an_archive", "it is not an archive of a bundle")
    if len(start) < 4:
        _refuse("truncated", "it is cut short")
    _refuse("header", "bytes follow an entry that are not an entry")


def _entry(file: BinaryIO, at: int, size: int) -> ArchiveEntry:
    """The entry whose local header begins at a byte."""
    fixed = _read(file, at, LOCAL_BYTES)
    if len(fixed) < LOCAL_BYTES:
        _refuse("truncated", "a header is cut short")
    flags, method = struct.unpack_from("<2H", fixed, 6)
    crc32, stored, length, name_bytes, extra_bytes = struct.unpack_from("<3I2H", fixed, 14)
    if flags & _ENCRYPTED:
        _refuse("encrypted", "an entry is encrypted")
    if flags & _DESCRIPTOR:
        _refuse("descriptor", "the size of an entry is behind it")
    if method != 0:
        _refuse("compressed", f"an entry is compressed by method {method}")
    if stored != length:
        _refuse("header", "an entry has two sizes")
    if not 1 <= name_bytes <= MAX_NAME:
        _refuse("outside", f"a name has {name_bytes} bytes")
    rest = _read(file, at + LOCAL_BYTES, name_bytes + extra_bytes)
    if len(rest) < name_bytes + extra_bytes:
        _refuse("truncated", "a header is cut short")
    name, extra = rest[:name_bytes].decode("latin-1"), rest[name_bytes:]
    if not is_entry_name(name):
        _refuse("outside", f"{name!r:.80} is not a name of a file in a bundle")
    entry = ArchiveEntry(name, at, _size(length, extra), crc32)
    _compare(entry, fixed, extra)
    return entry


def _size(length: int, extra: bytes) -> int:
    """The size of an entry: of its header, or of the zip64 field where 32 bits do not hold it."""
    if length != _FULL:
        if extra.startswith(_ZIP64[:2]):
            _refuse("zip64", "an entry has a zip64 field that it does not need")
        return length
    if not extra.startswith(_ZIP64) or len(extra) < 20:
        _refuse("zip64", "an entry of 4 GiB has no zip64 field")
    sizes = struct.unpack_from("<2Q", extra, 4)
    if sizes[0] != sizes[1] or not _FULL <= sizes[0] < 1 << 53:
        _refuse("zip64", f"a zip64 field has the sizes {sizes[0]} and {sizes[1]}")
    return int(sizes[0])


def _compare(entry: ArchiveEntry, fixed: bytes, extra: bytes) -> None:
    """Compare a header with the one that the entry must have."""
    expected = entry.local_header()
    if extra != expected[LOCAL_BYTES + len(entry.name) :]:
        _refuse("alignment", f"{entry.name} is not aligned as it must be")
    if fixed != expected[:LOCAL_BYTES]:
        _refuse("header", f"the header of {entry.name} has another value than it must have")


def _check_name(name: str, names: set[str]) -> None:
    """Refuse a name that is taken on some system: in other case, or as a directory.

    Args:
        names: files (as they are, in lower case) and directories (with `/`) so far; this one is added.
    """
    folded = name.lower()
    parts = folded.split("/")
    above = {"/".join(parts[:count]) for count in range(1, len(parts))}
    if folded in names or f"{folded}/" in names or above & names:
        _refuse("duplicate", f"two entries are named {name!r:.80}")
    names.update([folded, *(f"{directory}/" for directory in above)])


def _read(file: BinaryIO, at: int, count: int) -> bytes:
    file.seek(at)
    return file.read(count)


def _refuse(fault: str, sentence: str) -> NoReturn:
    raise ArchiveError(sentence, fault=fault)
