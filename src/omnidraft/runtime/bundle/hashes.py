"""The files of a bundle against its manifest: hashed before use, and unchanged after."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from omnidraft.errors import BundleError

Stamp = tuple[
    int, int, int
]  # size of a file, and the times when its content and its directory entry last changed


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def check_unchanged(path: Path, stamps: Mapping[str, Stamp]) -> None:
    """Refuse files that changed since they were hashed; call it after they are loaded.

    Raises:
        BundleError: a file was replaced or written.
    """
    for name, stamp in stamps.items():
        file = path / name
        if not file.is_file() or stamp_of(file) != stamp:
            raise BundleError(
                f"{file} was changed while it was loaded",
                "load the bundle again when nothing writes to it",
                fault="checksum",
            )


def verify_files(path: Path, manifest: Path, files: object) -> dict[str, Stamp]:
    """Hash every file that a manifest lists, and return the stamp of each file from before.

    Args:
        path: the directory of the bundle.
        manifest: the path of the manifest, for error messages.
        files: the field `files` of the manifest.

    Raises:
        BundleError: no files, a name outside the bundle, no hash, or a file that is absent, cut short or
            changed.
    """
    if not isinstance(files, dict) or not files:
        raise BundleError(f"{manifest} lists no files", "run `omnidraft export` again", fault="no_hash")
    stamps = {}
    for name, record in files.items():
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts or "\\" in name:
            raise BundleError(
                f"{manifest} names {name!r}, which is outside the bundle",
                "do not use this bundle",
                fault="outside",
            )
        try:
            stamps[name] = _verify_file(path / name, name, record, manifest)
        except (OSError, ValueError) as error:  # ValueError: a name that no file system allows
            raise BundleError(
                f"{name!r} of {path} cannot be read ({error})",
                "copy the whole bundle or run `omnidraft export` again",
                fault="missing",
            ) from None
    return stamps


def _verify_file(file: Path, name: str, record: object, manifest: Path) -> Stamp:
    expected = record.get("sha256") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(expected, str) or len(expected) != 64:
        raise BundleError(
            f"{manifest} has no hash of {name}", "run `omnidraft export` again", fault="no_hash"
        )
    if not file.is_file():
        raise BundleError(
            f"{file} is missing", "copy the whole bundle or run `omnidraft export` again", fault="missing"
        )
    stamp = stamp_of(file)
    size = stamp[0]
    if size != record.get("bytes"):
        raise BundleError(
            f"{file} has {size} bytes instead of {record.get('bytes')}",
            "it was cut short or changed: copy it again or run `omnidraft export` again",
            fault="size",
        )
    if file_sha256(file) != expected:
        raise BundleError(
            f"{file} was changed (its SHA-256 does not match)",
            "copy it again or run `omnidraft export` again",
            fault="checksum",
        )
    return stamp


def stamp_of(file: Path) -> Stamp:
    """The stamp of a file; without its inode number, which is not stable on every file system."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
