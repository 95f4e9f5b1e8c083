"""An archive that was opened: read or map its files in place, and check their hashes. spec/16-archive.md.

`open_archive.py` opens it; `check_hashes` reads every byte.
"""

import hashlib
import mmap
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from omnidraft.errors import ArchiveError
from omnidraft.runtime.archive.zip_layout import ArchiveEntry
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.hashes import Record
from omnidraft.runtime.disk.read_file import open_file
from omnidraft.runtime.parts.drafter_address import drafter_address
from omnidraft.runtime.parts.pack_index import PackIndex

PIECE = 1 << 20  # bytes that are read at once
ByteProgress = Callable[[int, int], None]  # (bytes done, all bytes)
_AGAIN = "download it again or run `omnidraft pack` again"


@dataclass(frozen=True)
class Archive:
    """An archive whose headers, manifest and index are right.

    Attributes:
        bundle: what its manifest says; its path is the archive.
        beside: the bytes of the entries that it does not list: itself, its signature, the index.
    """

    bundle: Bundle
    index: PackIndex
    entries: Mapping[str, ArchiveEntry]
    records: Mapping[str, Record]
    beside: Mapping[str, bytes]

    @property
    def path(self) -> Path:
        return self.bundle.path

    @property
    def address(self) -> str:
        """The address of its drafter."""
        return drafter_address(self.records)

    @property
    def files(self) -> list[str]:
        """The files of the manifest that the archive holds."""
        return [name for name in self.entries if name not in self.beside]

    @property
    def total(self) -> int:
        """Bytes of all entries."""
        return sum(entry.size for entry in self.entries.values())

    def mapped(self, name: str) -> memoryview:
        """A file as it lies in the archive, mapped. Its hash is not checked.

        Raises:
            BundleError: `left_out`; ArchiveError: the archive does not hold it, or cannot be read.
        """
        self.bundle.places.refuse_left_out(name)
        if name not in self.entries:
            raise refused(self.path, f"it does not hold {name!r:.80}", "entries")
        entry = self.entries[name]
        try:
            with open_file(self.path) as file:
                skip = entry.begin % mmap.ALLOCATIONGRANULARITY  # 0, but for Windows
                length, offset = entry.size + skip, entry.begin - skip
                data = (
                    mmap.mmap(file.fileno(), length, offset=offset, access=mmap.ACCESS_READ)
                    if length
                    else b""
                )
                return memoryview(data)[skip:]
        except (OSError, ValueError) as error:  # ValueError: the file became shorter
            raise refused(self.path, f"it cannot be read ({error})", "unreadable") from None


def pieces(file: BinaryIO, entry: ArchiveEntry) -> Iterator[bytes]:
    """The bytes of a file of an archive, in pieces.

    Raises:
        ArchiveError: `truncated`, where the archive became shorter.
    """
    file.seek(entry.begin)
    left = entry.size
    while left:
        piece = file.read(min(left, PIECE))
        if not piece:
            raise ArchiveError(f"{entry.name} is cut short", _AGAIN, fault="truncated")
        left -= len(piece)
        yield piece


def check_hashes(archive: Archive, progress: ByteProgress = lambda *_: None) -> None:
    """Read every file of an archive and compare its hash with the manifest's."""
    done, total = 0, sum(archive.entries[name].size for name in archive.files)
    with open_file(archive.path) as file:
        for name in archive.files:
            for piece in checked_pieces(archive, file, name):
                done += len(piece)
                progress(done, total)


def checked_pieces(archive: Archive, file: BinaryIO, name: str) -> Iterator[bytes]:
    """The bytes of a file that the manifest lists, in pieces; a wrong hash is raised behind the last piece.

    Raises:
        ArchiveError: `checksum` or `truncated`.
    """
    entry, digest, crc32 = archive.entries[name], hashlib.sha256(), 0
    for piece in pieces(file, entry):
        digest.update(piece)
        crc32 = zlib.crc32(piece, crc32)
        yield piece
    if digest.hexdigest() != archive.records[name].sha256 or crc32 != entry.crc32:
        raise refused(archive.path, f"the checksum of {name} is wrong", "checksum")


def refused(path: Path, why: str, fault: str) -> ArchiveError:
    """The refusal of an archive."""
    return ArchiveError(f"{os.fspath(path)} is refused: {why}", _AGAIN, fault=fault)
