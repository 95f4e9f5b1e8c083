"""Whether a bundle may be replaced: whatever else is in its directory would be lost. spec/16-archive.md."""

import os
from collections.abc import Collection
from pathlib import Path

from omnidraft.errors import counted, shown
from omnidraft.runtime.bundle.manifest_file import FORMAT, MANIFEST, MAX_BYTES
from omnidraft.runtime.bundle.signature import SIGNATURE
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.disk.strict_json import parse
from omnidraft.runtime.parts.pack_index import INDEX

_BESIDE = {MANIFEST, SIGNATURE, INDEX}  # not listed in the manifest
_LEFT_BY_SYSTEMS = {".DS_Store", "Thumbs.db", "desktop.ini"}  # by file managers, in any directory


def refusal_to_replace(place: Path) -> tuple[str, str] | None:
    """Why a path that exists may not be replaced by a bundle, and the remedy; None where it may.

    An empty directory may be replaced, and a bundle that holds nothing but its own files. Its manifest tells
    which these are, so that a directory with a damaged manifest stays, too.
    """
    if not place.is_symlink() and place.is_dir() and not any(place.iterdir()):
        return None
    files = _files_of(place)
    if files is None:
        remedy = "choose another place, or delete it yourself"
        return f"{place} is not a bundle, so it is not overwritten", remedy
    foreign = [name for name in unlisted(place, files) if name.split("/")[-1] not in _LEFT_BY_SYSTEMS]
    if not foreign:
        return None
    more = f" and {counted(len(foreign) - 1, 'other file')}" if len(foreign) > 1 else ""
    what = f"{shown(foreign[0]):.200}{more}, which the bundle does not list"
    return (
        f"{place} holds {what}, so it is not overwritten",
        "move what is yours away, or choose another place",
    )


def _files_of(place: Path) -> set[str] | None:
    """The names that the files of a bundle have; None for what is not a bundle."""
    manifest = place / MANIFEST
    if place.is_symlink() or manifest.is_symlink():
        return None
    try:
        value = parse(read_whole(manifest, MAX_BYTES))
    except (OSError, ValueError):
        return None
    if (
        not isinstance(value, dict)
        or value.get("format") != FORMAT
        or not isinstance(value.get("files"), dict)
    ):
        return None
    return set(value["files"])


def unlisted(place: Path, files: Collection[str]) -> list[str]:
    """Paths of the files and links in a bundle's directory that its manifest does not list, ascending."""
    names = set()
    for folder, directories, found in os.walk(place):
        links = [each for each in directories if os.path.islink(os.path.join(folder, each))]
        names |= {Path(folder, each).relative_to(place).as_posix() for each in (*found, *links)}
    return sorted(names.difference(files, _BESIDE))
