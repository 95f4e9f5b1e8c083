"""Share a drafter between the bundles of a folder: it moves to `drafters/ADDRESS` beside them."""

import os
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import ArchiveError, OmnidraftError, refusing
from omnidraft.runtime.bundle.bundle import Bundle, described_bundle, open_bundle
from omnidraft.runtime.bundle.hashes import Record, file_sha256
from omnidraft.runtime.bundle.manifest_file import MANIFEST, read_manifest
from omnidraft.runtime.disk.atomic_write import sync_directory
from omnidraft.runtime.disk.whole_directory import new_directory, recover, sync_tree, take_name
from omnidraft.runtime.parts.drafter_address import DRAFTER, SHARED, drafter_address, shared_place


def share_drafter(bundle: Path) -> Path:
    """Move the drafter of a bundle to the place that bundles share, or drop it where the place has it.

    A kill leaves the bundle with its own drafter or with the shared one, whole.

    Returns:
        The directory of the shared drafter.

    Raises:
        BundleError: the bundle is damaged.
    """
    opened = open_bundle(bundle)
    if opened.places.shared is not None:
        return opened.places.shared
    if opened.places.index is not None:
        raise ArchiveError(
            f"{bundle} was packed for {opened.places.index.device}, so its drafter is not whole",
            "share the drafter of the whole bundle",
            fault="left_out",
        )
    if opened.drafter.is_absent:
        raise ArchiveError(f"{bundle} has no drafter", "share that of another bundle", fault="left_out")
    place = shared_place(bundle, address_of(opened))
    with refusing(
        ArchiveError, f"the drafter cannot be moved to {place}", "check who may write there", "unwritable"
    ):
        _move(opened, bundle / DRAFTER, place)
    return place


def _move(bundle: Bundle, drafter: Path, place: Path) -> None:
    for path in (place, place.parent):
        if path.is_symlink():
            raise ArchiveError(f"{path} is a link, and a shared drafter is never behind one", fault="outside")
    place.parent.mkdir(exist_ok=True)
    recover(place)
    if _has(bundle, place):
        with new_directory(place) as work:  # removed at the end, with what is moved into it
            drafter.rename(work / drafter.name)
    else:
        sync_tree(drafter)
        take_name(drafter, place)  # in place of one that is damaged or lacks files
    sync_directory(drafter.parent)


def _has(bundle: Bundle, place: Path) -> bool:
    """Whether a place has every file of a bundle's drafter, unchanged."""
    files = {n: record for n, record in bundle.manifest["files"].items() if n.startswith(DRAFTER)}
    return all(
        (place / name[len(DRAFTER) :]).is_file()
        and file_sha256(place / name[len(DRAFTER) :]) == record["sha256"]
        for name, record in files.items()
    )


def address_of(bundle: Bundle) -> str:
    """The address of a bundle's drafter."""
    files = bundle.manifest["files"]
    return drafter_address({name: Record(each["sha256"], each["bytes"]) for name, each in files.items()})


@dataclass(frozen=True)
class DrafterUsers:
    """The bundles of a folder that use a shared drafter."""

    bundles: list[str]  # names of their directories
    unknown: list[str]  # names of directories whose manifest is refused, so that nobody can tell


def users_of(place: Path) -> DrafterUsers:
    """The bundles that use the shared drafter `FOLDER/drafters/ADDRESS`, by their manifests alone."""
    bundles, unknown = [], []
    for manifest in sorted(place.parent.parent.glob(f"*/{MANIFEST}")):
        bundle = manifest.parent
        if os.path.lexists(bundle / DRAFTER):
            continue
        try:
            described, _ = described_bundle(bundle, read_manifest(bundle))
        except OmnidraftError:
            unknown.append(bundle.name)
            continue
        if address_of(described) == place.name:
            bundles.append(bundle.name)
    return DrafterUsers(bundles, unknown)


def is_shared_drafter(path: Path) -> bool:
    """Whether a path is the directory of a shared drafter."""
    return path.is_dir() and path.resolve().parent.name == SHARED and not (path / MANIFEST).exists()
