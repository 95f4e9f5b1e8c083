"""Where the files of a bundle are: in its directory, in a shared drafter beside it, or left out.

spec/16-archive.md, "Opening a bundle that lacks files".
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import BundleError
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.parts.drafter_address import DRAFTER, FileRecord, drafter_address, shared_place
from omnidraft.runtime.parts.pack_index import INDEX, MAX_BYTES, PackIndex, PackIndexError, read_index


@dataclass(frozen=True)
class FilePlaces:
    """Where the files of a bundle are.

    Attributes:
        shared: the directory of the shared drafter; None where the bundle holds its own.
        index: of the archive that the bundle was unpacked from; None for a whole bundle.
    """

    path: Path
    shared: Path | None = None
    index: PackIndex | None = None

    def place(self, name: str) -> Path:
        """The path at which a file of the bundle is, or would be."""
        if self.shared is not None and f"{name}/".startswith(DRAFTER):
            return self.shared / name[len(DRAFTER) :]
        return self.path / name

    def file(self, name: str) -> Path:
        """The path of a file of the bundle."""
        self.refuse_left_out(name)
        return self.place(name)

    def left_out(self, name: str) -> bool:
        """Whether a file was left out when the bundle was packed for a device."""
        return self.index is not None and name in self.index.left_out

    def present(self, files: Mapping[str, FileRecord]) -> list[str]:
        """The names of a manifest's files that were not left out, in order."""
        return [name for name in files if not self.left_out(name)]

    def refuse_left_out(self, name: str) -> None:
        """Refuse to open a file that was left out.

        Raises:
            BundleError: `left_out`.
        """
        if self.index is None or name not in self.index.left_out:
            return
        devices = self.index.left_out[name]
        remedy = f"unpack an archive that was packed with --for {' or '.join(devices)}"
        if self.index.device in devices:
            remedy = f"pack the whole bundle for {self.index.device} again, without --no-learning"
        elif not devices:
            remedy = "use the whole bundle, which was not packed"
        raise BundleError(
            f"{name!r:.200} was left out when {self.path} was packed for {self.index.device}",
            remedy,
            fault="left_out",
        )

    def links(self, name: str) -> list[Path]:
        """The paths on the way to a file that must not be links."""
        if self.shared is not None and name.startswith(DRAFTER):
            parts = self.place(name).relative_to(self.shared).parts
            below = [self.shared.joinpath(*parts[:count]) for count in range(len(parts), 0, -1)]
            return [*below, self.shared, self.shared.parent]
        parts = tuple(name.split("/"))
        return [self.path.joinpath(*parts[:count]) for count in range(len(parts), 0, -1)]

    def remedy_for(self, name: str) -> str:
        """What to do where a file is absent."""
        if self.shared is not None and name.startswith(DRAFTER):
            return f"the bundle shares its drafter: copy {self.shared.name} into {self.shared.parent}"
        return "copy the whole bundle or run `omnidraft export` again"


def find_places(path: Path, manifest: bytes, files: Mapping[str, FileRecord]) -> FilePlaces:
    """Where the files of a bundle are.

    Raises:
        BundleError: `index` or `version`, of a pack.json that is refused; or `index`: it leaves out a file
            that is in the directory. pack.json is not signed, and a file that it leaves out is not hashed.
    """
    index, shared = _index(path, manifest, files), None
    for name in () if index is None else index.left_out:
        if os.path.lexists(path / name):
            raise _refused(path / INDEX, f"it leaves out {name!r:.200}, which is in the directory", "index")
    if not os.path.lexists(path / DRAFTER) and any(name.startswith(DRAFTER) for name in files):
        shared = shared_place(path, drafter_address(files))
    return FilePlaces(path, shared, index)


def _index(path: Path, manifest: bytes, files: Mapping[str, FileRecord]) -> PackIndex | None:
    file = path / INDEX
    try:
        return read_index(read_whole(file, MAX_BYTES), hashlib.sha256(manifest).hexdigest(), files)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason, fault = error.strerror or "it cannot be read", "index"
    except PackIndexError as error:
        reason, fault = str(error), error.fault
    raise _refused(file, reason, fault)


def _refused(file: Path, why: str, fault: str) -> BundleError:
    return BundleError(f"{file} is refused: {why}", "unpack the archive again", fault=fault)
