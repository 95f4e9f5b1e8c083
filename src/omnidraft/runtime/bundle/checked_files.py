"""Files of a bundle as they are used: the bytes that were hashed, and graphs with weights in the bundle."""

import hashlib
import mmap
from pathlib import Path, PurePosixPath

from omnidraft.errors import BundleError, reason, refusing
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.external_data import GraphFileError, external_files
from omnidraft.runtime.bundle.hashes import changed
from omnidraft.runtime.disk.read_file import open_file, read_whole

MOST_STEP = 1 << 28  # bytes of the graph of a training step, whose weights are beside it


def checked_bytes(bundle: Bundle, name: str, most: int) -> bytes:
    """The bytes of a file, which have the size and hash of the manifest at the moment when they are used.

    Raises:
        BundleError: the file is not listed, larger, absent or not the one that was hashed.
    """
    file, record = bundle.file(name), bundle.manifest["files"].get(name)
    if record is None:
        raise BundleError(
            f"{bundle.path} has no hash of {name!r:.80}", "run `omnidraft export` again", fault="no_hash"
        )
    with refusing(BundleError, f"{file} cannot be read", "run `omnidraft export` again", "unreadable"):
        data = read_whole(file, most)
    if len(data) != record["bytes"] or hashlib.sha256(data).hexdigest() != record["sha256"]:
        raise changed(file)
    return data


def checked_graph(bundle: Bundle, name: str) -> Path:
    """The path of a graph whose weights are all in files that the manifest lists.

    onnxruntime opens what a graph names, and older versions also outside of the bundle. The caller calls
    `check_unchanged` after the graph is loaded.

    Raises:
        BundleError: the graph cannot be read or holds what no graph may hold, or it names a file that the
            manifest does not list or that was left out.
    """
    file = bundle.file(name)
    try:
        with open_file(file) as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
            places = external_files(data)
    except GraphFileError as error:
        raise _refused(file, str(error), error.fault) from None
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        remedy = "copy the whole bundle or run `omnidraft export` again"
        raise BundleError(f"{file} cannot be read ({reason(error)})", remedy, fault="unreadable") from None
    _check_places(bundle, name, places, PurePosixPath(name).parent, file.parent)
    return file


def checked_step(bundle: Bundle, name: str, folder: str) -> bytes:
    """The bytes of the graph of a training step, whose weights are all in files that the manifest lists.

    Args:
        folder: the folder in the bundle that the graph's weights are relative to.
    """
    path = PurePosixPath(folder)
    if path.is_absolute() or ".." in path.parts or "\\" in folder:
        raise _refused(bundle.file(name), f"its weights are in {folder!r:.80}, which is outside the bundle")
    data = checked_bytes(bundle, name, MOST_STEP)
    try:
        places = external_files(data)
    except GraphFileError as error:
        raise _refused(bundle.file(name), str(error), error.fault) from None
    _check_places(bundle, name, places, path, bundle.file(folder))
    return data


def _check_places(bundle: Bundle, name: str, places: set[str], folder: PurePosixPath, opened: Path) -> None:
    for place in sorted(places):
        listed = (folder / place).as_posix()
        if listed not in bundle.manifest["files"]:
            raise _refused(
                bundle.file(name), f"its weights are in {place!r:.80}, which the manifest does not list"
            )
        if bundle.file(listed) != opened / place:  # the file that was hashed
            raise _refused(bundle.file(name), f"its weights are in {place!r:.80}, beside a shared drafter")


def _refused(file: Path, why: str, fault: str = "outside") -> BundleError:
    return BundleError(f"{file} is refused: {why}", "do not use this bundle", fault=fault)
