"""The one checkpoint file of learners: named arrays and JSON metadata in a safetensors file."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from omnidraft.errors import SettingError, reason, refusing
from omnidraft.runtime.disk.atomic_write import write_atomically

Arrays = dict[str, npt.NDArray[np.generic]]


class SavedArrays(NamedTuple):
    """The content of a file."""

    arrays: Arrays
    metadata: dict[str, Any]


@dataclass(frozen=True)
class StateFormat:
    """A kind of state file.

    Attributes:
        name, version: written into the file; a file with another name or version is refused.
        task: what goes on from the file, as the refusal says it: "learning", "training".
    """

    name: str
    version: str
    task: str
    remedy: str = "delete it or name another file"

    def write(self, path: Path, arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, Any]) -> None:
        """Replace the file. A kill at any moment leaves the old file or the new one, whole.

        Args:
            arrays: of data types that safetensors and numpy share.
            metadata: JSON values by name; `format` and `version` are not among the names.

        Raises:
            SettingError: the file cannot be written; an old one is whole.
        """
        header = {name: json.dumps(value, sort_keys=True) for name, value in metadata.items()}
        header |= {"format": self.name, "version": self.version}
        data = save({name: np.asarray(array, order="C") for name, array in arrays.items()}, header)
        with refusing(SettingError, f"{path} cannot be written", "make room or give another place"):
            write_atomically(path, data)

    def read(self, path: Path) -> SavedArrays:
        """The arrays and the metadata.

        Memory is that of the file: safetensors checks the length of the header (at most 100 MB) and that the
        arrays fill the rest of the file exactly.

        Raises:
            SettingError: the file cannot be read, or has another format.
        """
        return self._read(path, with_arrays=True)

    def read_metadata(self, path: Path) -> dict[str, Any]:
        """The metadata alone; no array is loaded."""
        return self._read(path, with_arrays=False).metadata

    def refusal(self, path: Path, why: str) -> SettingError:
        """The error of a file from which nothing can go on; `why` is the verb of the sentence."""
        return SettingError(f"{path} {why}, so {self.task} cannot go on from it", self.remedy)

    def check_same(self, path: Path, recorded: Any, current: Mapping[str, Any]) -> None:
        """Refuse a file that was made with other settings.

        Raises:
            SettingError: a setting differs; the message has both values.
        """
        if not isinstance(recorded, dict):
            raise self.refusal(path, "has no readable settings")
        for name, value in current.items():
            if recorded.get(name) != value:
                raise self.refusal(
                    path, f"was made with {name} {recorded.get(name)!r:.80} and not {value!r:.80}"
                )

    def _read(self, path: Path, *, with_arrays: bool) -> SavedArrays:
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise self.refusal(path, "is not a regular file")  # reading a pipe would block
            with safe_open(path, framework="numpy") as file:
                header = file.metadata() or {}
                self._check(path, header)
                names = file.keys() if with_arrays else ()
                arrays = {name: _plain(file.get_tensor(name)) for name in names}
        except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
            raise self.refusal(path, f"cannot be read ({reason(error)})") from None
        return SavedArrays(arrays, self._metadata(path, header))

    def _check(self, path: Path, header: Mapping[str, str]) -> None:
        name, version = header.get("format"), header.get("version")
        if (name, version) != (self.name, self.version):
            raise self.refusal(path, f"is {name} version {version}")

    def _metadata(self, path: Path, header: Mapping[str, str]) -> dict[str, Any]:
        metadata = {}
        for name, text in header.items():
            if name in ("format", "version"):
                continue
            try:
                metadata[name] = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise self.refusal(path, f"has no readable {name} ({reason(error)})") from None
        return metadata


def _plain(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Refuse bfloat16 and the like, which numpy reads only where another package has registered them."""
    if array.dtype.kind not in "biuf":
        raise TypeError(f"numpy has no data type {array.dtype}")
    return array
