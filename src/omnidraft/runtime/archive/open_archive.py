"""Open an archive: headers, manifest, signature where a key is given, and index. spec/16-archive.md.

No file of a model is read here.
"""

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from omnidraft.errors import ArchiveError, refusing
from omnidraft.runtime.archive.archive import Archive, pieces, refused
from omnidraft.runtime.archive.zip_layout import LOCAL, ArchiveEntry
from omnidraft.runtime.archive.zip_reader import read_entries
from omnidraft.runtime.bundle.bundle import described_bundle
from omnidraft.runtime.bundle.hashes import Record
from omnidraft.runtime.bundle.manifest_file import MANIFEST, MAX_BYTES
from omnidraft.runtime.bundle.signature import SIGNATURE, PublicKey, decode, key_id, read_public_key, verify
from omnidraft.runtime.disk.read_file import open_file
from omnidraft.runtime.parts.file_places import FilePlaces
from omnidraft.runtime.parts.pack_index import INDEX, PackIndex, PackIndexError, read_index
from omnidraft.runtime.parts.pack_index import MAX_BYTES as MAX_INDEX

_BESIDE = {MANIFEST: MAX_BYTES, SIGNATURE: 201, INDEX: MAX_INDEX}  # not in the manifest; bytes at most


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
        public_key: of the signer; an archive without a signature by this key is refused. None checks nothing.

    Raises:
        ArchiveError, BundleError: with the name of the first fault.
        SignatureError: it is not signed with the key.
        SettingError: the key is not a public key, or a package that checks signatures is not installed.
    """
    path = Path(path)
    key = None if public_key is None else read_public_key(public_key)
    with (
        refusing(ArchiveError, f"the archive {path} cannot be read", "check the path", "unreadable"),
        open_file(path) as file,
    ):
        return _open(path, file, key)


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
