"""Open an archive of a bundle and read it in place: manifest, index, and mapped files. spec/16-archive.md.

Opening reads headers, manifest, signature and index. `check_hashes` reads every byte.
"""

import hashlib
import mmap
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from omnidraft.errors import ArchiveError
from omnidraft.runtime.archive.zip_layout import LOCAL, ArchiveEntry
from omnidraft.runtime.archive.zip_reader import read_entries
from omnidraft.runtime.bundle.bundle import Bundle, described_bundle
from omnidraft.runtime.bundle.hashes import Record
from omnidraft.runtime.bundle.manifest_file import MANIFEST, MAX_BYTES
from omnidraft.runtime.bundle.signature import SIGNATURE, PublicKey, decode, key_id, read_public_key, verify
from omnidraft.runtime.disk.read_file import open_file
from omnidraft.runtime.parts.drafter_address import drafter_address
from omnidraft.runtime.parts.file_places import FilePlaces
from omnidraft.runtime.parts.pack_index import INDEX, PackIndex, PackIndexError, read_index
from omnidraft.runtime.parts.pack_index import MAX_BYTES as MAX_INDEX

PIECE = 1 << 20  # bytes that are read at once
ByteProgress = Callable[[int, int], None]  # (bytes done, all bytes)
_BESIDE = {MANIFEST: MAX_BYTES, SIGNATURE: 201, INDEX: MAX_INDEX}  # not in the manifest; bytes at most
_AGAIN = "download it again or run `omnidraft pack` again"


@dataclass(frozen=True)
class Archive:
    """An archive whose headers, manifest and index are right.

    Attributes:
        bundle: what its manifest says; its path is the archive.
        index: which files it holds.
        entries: by name, in order.
        records: size and hash of each file that the manifest lists.
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


def is_archive(path: Path) -> bool:
    """Whether a path is a file that begins as an archive, so that a command can treat it as one."""
    try:
        if path.is_dir():
            return False
        with open_file(path) as file:
            return file.read(len(LOCAL)) == LOCAL
    except OSError:
        return False


def open_archive(path: str | Path, public_key: PublicKey | None = None) -> Archive:
    """Open an archive: its headers, its manifest, its signature where a key is given, and its index.

    Args:
        path: the file.
        public_key: of the signer; an archive without a signature by this key is refused. None checks nothing.

    Raises:
        ArchiveError, BundleError: with the name of the first fault.
        SignatureError: it is not signed with the key.
        SettingError: the key is not a public key, or a package that checks signatures is not installed.
    """
    path = Path(path)
    key = None if public_key is None else read_public_key(public_key)
    try:
        with open_file(path) as file:
            return _open(path, file, key)
    except OSError as error:
        raise ArchiveError(
            f"the archive {path} cannot be read ({error.strerror})", "check the path", fault="unreadable"
        ) from None


def _open(path: Path, file: BinaryIO, key: bytes | None) -> Archive:
    try:
        entries = {entry.name: entry for entry in read_entries(file)}
    except ArchiveError as error:
        raise refused(path, error.message, error.fault) from None
    if next(iter(entries)) != MANIFEST:
        raise refused(path, f"its first entry is not {MANIFEST}", "entries")
    beside = {name: _beside(path, file, entries[name]) for name in _BESIDE if name in entries}
    manifest, signed_by = beside[MANIFEST], None
    if key is not None:  # before any field of the manifest is used
        signed_by = key_id(key)
        verify(manifest, decode(beside[SIGNATURE]) if SIGNATURE in beside else None, key)
    bundle, records = described_bundle(path, manifest, packed=True)
    index = _index(path, beside.get(INDEX), manifest, records)
    _check_entries(path, entries, index, records)
    bundle = replace(bundle, found=FilePlaces(path, None, index), signed_by=signed_by)
    return Archive(bundle, index, entries, records, beside)


def _beside(path: Path, file: BinaryIO, entry: ArchiveEntry) -> bytes:
    """The bytes of an entry that the manifest does not list."""
    if entry.size > _BESIDE[entry.name]:
        raise refused(path, f"{entry.name} has more than {_BESIDE[entry.name]} bytes", "size")
    data = b"".join(pieces(file, entry))
    if zlib.crc32(data) != entry.crc32:
        raise refused(path, f"the checksum of {entry.name} is wrong", "checksum")
    return data


def _index(path: Path, data: bytes | None, manifest: bytes, records: Mapping[str, Record]) -> PackIndex:
    if data is None:
        raise refused(path, f"it has no {INDEX}", "index")
    try:
        return read_index(data, hashlib.sha256(manifest).hexdigest(), records)
    except PackIndexError as error:
        raise refused(path, f"{INDEX}: {error}", error.fault) from None


def _check_entries(
    path: Path, entries: Mapping[str, ArchiveEntry], index: PackIndex, records: Mapping[str, Record]
) -> None:
    """Check that an archive holds what it must, in order, in the sizes of the manifest."""
    first = [MANIFEST, *([SIGNATURE] if SIGNATURE in entries else []), INDEX]
    expected = [*first, *(name for name in records if index.holds(name))]
    if list(entries) != expected:
        raise refused(path, "it does not hold the files that its index names, in their order", "entries")
    for name, entry in entries.items():
        if name in records and entry.size != records[name].bytes:
            message = f"{name} has {entry.size} bytes instead of {records[name].bytes}"
            raise refused(path, message, "size")


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
    """Read every file of an archive and compare its hash with the manifest's.

    Args:
        archive: from `open_archive`.
        progress: called after each piece.

    Raises:
        ArchiveError: `checksum`.
    """
    done, total = 0, sum(archive.entries[name].size for name in archive.files)
    with open_file(archive.path) as file:
        for name in archive.files:
            for piece in checked_pieces(archive, file, name):
                done += len(piece)
                progress(done, total)


def checked_pieces(archive: Archive, file: BinaryIO, name: str) -> Iterator[bytes]:
    """The bytes of a file that the manifest lists, in pieces; a wrong hash is raised behind the last piece.

    Args:
        archive: from `open_archive`.
        file: the archive, open.
        name: of the file.

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
