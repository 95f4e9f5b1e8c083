"""Write an archive of a bundle for a device: the same bundle gives the same bytes; spec/16-archive.md."""

import hashlib
import os
import secrets
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from omnidraft.errors import ArchiveError, BundleError, refusing
from omnidraft.packing.device_files import PackOptions, left_out, on_device
from omnidraft.packing.share_drafter import address_of
from omnidraft.runtime.archive.archive import PIECE, ByteProgress
from omnidraft.runtime.archive.zip_layout import (
    ALIGNMENT,
    ArchiveEntry,
    central_directory,
)
from omnidraft.runtime.archive.zip_reader import is_entry_name
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST, parse_manifest, read_manifest
from omnidraft.runtime.bundle.memory import Need, memory_need
from omnidraft.runtime.bundle.signature import SIGNATURE, PublicKey, encode, read_signature
from omnidraft.runtime.disk.atomic_write import place_of, remove_leftovers, sync_directory
from omnidraft.runtime.disk.read_file import open_file
from omnidraft.runtime.parts.pack_index import INDEX, PackIndex, write_index

_AGAIN = "pack it again when nothing writes to it"


@dataclass(frozen=True)
class Packed:
    """An archive that was written, and the sizes that a device needs."""

    path: Path  # the archive
    index: PackIndex  # what it holds
    files: int  # number of the bundle's files in it
    download: int  # bytes of the archive
    on_disk: int  # bytes of the files when they are unpacked
    # files that the device needs and another archive holds: of the drafter, or all others
    elsewhere: tuple[str, ...]
    # memory, without_drafter: at the peak of a generation on the device, with the drafter and without it
    memory: Need
    without_drafter: Need
    drafter: str | None  # address of the drafter; None where the bundle has none


@dataclass(frozen=True)
class _Part:
    """A file that goes into an archive: bytes, or a path with the hash that it must have."""

    name: str
    size: int
    source: bytes | Path
    sha256: str = ""


def pack(
    bundle: Path,
    out: Path,
    options: PackOptions,
    *,
    public_key: PublicKey | None = None,
    progress: ByteProgress = lambda *_: None,
) -> Packed:
    """Pack a bundle for a device. Manifest and signature stay as they are, byte for byte.

    Args:
        public_key: of the bundle's signer; None leaves the signature unchecked.

    Raises:
        BundleError: the bundle is damaged, or has no files for the device.
    """
    if os.path.lexists(out):
        raise ArchiveError(
            f"{out} exists already", "choose another name or delete it first", fault="unwritable"
        )
    opened = open_bundle(bundle, public_key)
    manifest = read_manifest(bundle)
    if parse_manifest(bundle, manifest)["seal"] != opened.manifest["seal"]:
        raise ArchiveError(f"{bundle} was changed while it was read", _AGAIN, fault="checksum")
    index = PackIndex(
        hashlib.sha256(manifest).hexdigest(), options.device, options.drafter, left_out(opened, options)
    )
    parts = list(_parts(opened, manifest, index))
    with _new_archive(out, sum(part.size + 2 * ALIGNMENT for part in parts)) as file:
        _write(file, parts, progress)
        size = file.tell()
    return Packed(
        path=out,
        index=index,
        files=sum(part.name in opened.manifest["files"] for part in parts),
        download=size,
        on_disk=sum(part.size for part in parts),
        elsewhere=tuple(
            name for name in opened.manifest["files"] if not index.holds(name) and name not in index.left_out
        ),
        memory=memory_need(on_device(opened, options.device)),
        without_drafter=memory_need(on_device(opened, options.device), drafter=False),
        drafter=None if opened.drafter.is_absent else address_of(opened),
    )


def _parts(bundle: Bundle, manifest: bytes, index: PackIndex) -> Iterator[_Part]:
    """The files of an archive, in order."""
    beside = {MANIFEST: manifest}
    signature = read_signature(bundle.path)
    if signature is not None:
        beside[SIGNATURE] = encode(signature)
    beside[INDEX] = write_index(index)
    for name, data in beside.items():
        yield _Part(name, len(data), data)
    for name, record in bundle.manifest["files"].items():
        if index.holds(name):
            if not is_entry_name(name):
                raise BundleError(
                    f"the archive cannot hold a file named {name!r:.80}",
                    "give the files of the graph other names, of ASCII letters, digits and ._+-",
                    fault="outside",
                )
            yield _Part(name, record["bytes"], bundle.file(name), record["sha256"])


def _write(file: BinaryIO, parts: Sequence[_Part], progress: ByteProgress) -> None:
    """Write all parts and the directory behind them."""
    entries: list[ArchiveEntry] = []
    done, total = 0, sum(part.size for part in parts)
    for part in parts:
        at, crc32 = file.tell(), 0
        file.write(ArchiveEntry(part.name, at, part.size, 0).local_header())
        for piece in _pieces(part):
            crc32 = zlib.crc32(piece, crc32)
            file.write(piece)
            done += len(piece)
            progress(done, total)
        entry = ArchiveEntry(part.name, at, part.size, crc32)
        end = file.tell()
        file.seek(at)
        file.write(entry.local_header())  # now with its checksum
        file.seek(end)
        entries.append(entry)
    file.write(central_directory(entries, file.tell()))


def _pieces(part: _Part) -> Iterator[bytes]:
    """The bytes of a part, which are those that the manifest describes."""
    if isinstance(part.source, bytes):
        yield part.source
        return
    digest, size = hashlib.sha256(), 0
    with open_file(part.source) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            size += len(piece)
            yield piece
    if size != part.size or digest.hexdigest() != part.sha256:
        raise ArchiveError(f"{part.source} was changed while it was packed", _AGAIN, fault="checksum")


@contextmanager
def _new_archive(out: Path, size: int) -> Iterator[BinaryIO]:
    """A file that takes its name when it is whole."""
    with refusing(ArchiveError, f"{out} cannot be written", "choose another place", "unwritable"):
        place = place_of(out)
        free = shutil.disk_usage(place.parent).free
        if free < size:
            raise ArchiveError(
                f"{out} needs up to {size} bytes and its disk has {free} left",
                "free some space or choose another place",
                fault="space",
            )
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, place)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(place.parent)
        remove_leftovers(place, 86_400.0)
