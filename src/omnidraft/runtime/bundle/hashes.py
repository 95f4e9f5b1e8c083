"""The files of a bundle against its manifest: hashed, or known by their stamps, and unchanged afterwards."""

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from omnidraft.errors import BundleError
from omnidraft.runtime.bundle import bundle_limits as limits
from omnidraft.runtime.device.check_record import Stamp, remember_check, stamp_of, was_checked, write_back
from omnidraft.runtime.disk.json_fields import hexadecimal, integer, mapping
from omnidraft.runtime.disk.read_file import open_file
from omnidraft.runtime.parts.file_places import FilePlaces

Verify = Literal["auto", "full", "stamp"]
VERIFIES: tuple[Verify, ...] = ("auto", "full", "stamp")
MAX_FILES, MAX_PATH = limits.MAX_FILES, limits.MAX_PATH  # files of a bundle, and bytes of a path


@dataclass(frozen=True)
class Record:
    """What a manifest says of a file."""

    sha256: str
    bytes: int


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def check_unchanged(places: FilePlaces, stamps: Mapping[str, Stamp]) -> None:
    """Refuse files that changed since they were hashed; call it after they are loaded.

    Raises:
        BundleError: a file was replaced or written.
    """
    for name, stamp in stamps.items():
        file = places.place(name)
        if not file.is_file() or stamp_of(file).times != stamp.times:
            raise changed(file)


def changed(file: Path) -> BundleError:
    """The refusal of a file that is not the one that was hashed."""
    remedy = "load the bundle again when nothing writes to it"
    return BundleError(f"{file} was changed while it was loaded", remedy, fault="checksum")


def refuse_rewritten(places: FilePlaces, stamps: Mapping[str, Stamp]) -> None:
    """Refuse files that were written in place since they were loaded; call it before each generation.

    Graphs and tables are mapped: the models would compute with what was written, and a page of a file that
    was cut short ends the program. A file that was replaced or removed does no harm, since the old one stays.

    Raises:
        BundleError: `checksum`.
    """
    for name, stamp in stamps.items():
        file = places.place(name)
        try:
            now = stamp_of(file)
        except OSError:
            continue
        same = (now.inode, now.device) == (stamp.inode, stamp.device)
        if same and (now.size, now.modified) != (stamp.size, stamp.modified):
            raise BundleError(
                f"{file} was written while the bundle is loaded",
                "load the bundle again, and replace the files of a bundle, but never write into them",
                fault="checksum",
            )


def check_files(manifest: Path, files: object) -> dict[str, Record]:
    """The field `files` of a manifest as values; no file is looked at.

    Raises:
        BundleError: `no_hash` or `outside`.
    """
    if not isinstance(files, dict) or not 0 < len(files) <= MAX_FILES:
        raise BundleError(
            f"{manifest} lists no files, or more than {MAX_FILES}",
            "run `omnidraft export` again",
            fault="no_hash",
        )
    return {name: _record(manifest, name, value) for name, value in files.items()}


def _record(manifest: Path, name: str, value: object) -> Record:
    if not is_inside(name):
        raise BundleError(
            f"{manifest} names {name!r:.200}, which is outside the bundle",
            "do not use this bundle",
            fault="outside",
        )
    try:
        record = mapping(value)
        return Record(hexadecimal(record["sha256"], 64), integer(record["bytes"], 0, (1 << 53) - 1))
    except (KeyError, ValueError):
        raise BundleError(
            f"{manifest} has no hash of {name!r:.200}", "run `omnidraft export` again", fault="no_hash"
        ) from None


def is_inside(name: str) -> bool:
    """Whether a path of a manifest is relative and stays below the bundle on every system."""
    parts = name.split("/")
    wrong = any(c < " " or c in ":\\" for c in name) or any(part in ("", ".", "..") for part in parts)
    return not wrong and len(name.encode()) <= MAX_PATH


def verify_files(
    places: FilePlaces, files: Mapping[str, Record], seal: str, verify: Verify
) -> dict[str, Stamp]:
    """Hash every file that a manifest lists and that was not left out; return the stamps from before.

    Args:
        seal: of the manifest, for the record of this check.
        verify: "stamp" hashes nothing where all stamps are those of the last full check on this device.

    Raises:
        BundleError: a file is absent, cut short or changed.
    """
    now = time.time_ns()
    if verify == "stamp":
        known = _stamps(places, files)
        if known and was_checked(places.path, seal, known):
            return known
    stamps = {}
    for name in places.present(files):
        try:
            _refuse_links(places.links(name))
            stamps[name] = _verify_file(places.place(name), files[name], places.remedy_for(name))
        except OSError as error:
            raise BundleError(
                f"{name!r} of {places.path} cannot be read ({error})",
                places.remedy_for(name),
                fault="missing",
            ) from None
    remember_check(places.path, seal, stamps, now)
    return stamps


def _stamps(places: FilePlaces, files: Mapping[str, Record]) -> dict[str, Stamp] | None:
    """The stamp of each file; None where one is not as it must be, which the full check then names."""
    stamps = {}
    try:
        for name in places.present(files):
            _refuse_links(places.links(name))
            file = places.place(name)
            stamps[name] = stamp_of(file)
            if stamps[name].size != files[name].bytes or not file.is_file():
                return None
    except (OSError, BundleError):
        return None
    return stamps


def _verify_file(file: Path, record: Record, remedy: str) -> Stamp:
    if not file.is_file():
        raise BundleError(f"{file} is missing", remedy, fault="missing")
    write_back(file)
    stamp = stamp_of(file)
    if stamp.size != record.bytes:
        raise BundleError(
            f"{file} has {stamp.size} bytes instead of {record.bytes}",
            "it was cut short or changed: copy it again or run `omnidraft export` again",
            fault="size",
        )
    if file_sha256(file) != record.sha256:
        raise BundleError(
            f"{file} was changed (its SHA-256 does not match)",
            "copy it again or run `omnidraft export` again",
            fault="checksum",
        )
    return stamp


def _refuse_links(paths: Iterable[Path]) -> None:
    """Refuse a link on the way to a file of a bundle: it leads outside, or to a file that can change."""
    for path in paths:
        if path.is_symlink():
            raise BundleError(
                f"{path} is a link, and the files of a bundle are read from inside the bundle only",
                "copy the files themselves, for example with `cp -RL`",
                fault="outside",
            )
