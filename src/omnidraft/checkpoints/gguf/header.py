"""Read the header of a GGUF file (versions 2 and 3), bounded before any library reads the file.

The file comes from outside: every count, length, type, size and offset is checked against limits and against
the length of the file, and tensors may not overlap. The bytes of the tensors are not read here.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omnidraft.checkpoints.refusals import WEIGHTS
from omnidraft.errors import CheckpointError, reason
from omnidraft.runtime.disk.read_file import open_file

Bytes = NDArray[np.uint8]
MAGIC, VERSIONS = b"GGUF", (2, 3)
MAX_HEADER, MAX_STRING, MAX_NAME = 1 << 26, 1 << 20, 256  # bytes
MAX_KEYS, MAX_TENSORS, MAX_ITEMS = 1 << 12, 1 << 16, 1 << 21
MAX_AXES, MAX_ALIGNMENT = 4, 1 << 16
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class TensorEntry:
    """A tensor of the file."""

    name: str  # llama.cpp's name.
    kind: str  # name of its type, such as Q4_K
    shape: tuple[int, ...]  # in torch's order, rows before columns
    offset: int  # of its first byte in the file
    size: int  # bytes


@dataclass(frozen=True)
class GgufHeader:
    """The header of a GGUF file."""

    path: Path  # the file
    values: Mapping[str, Any]  # the metadata; arrays of numbers are numpy arrays, other arrays are lists
    tensors: Mapping[str, TensorEntry]  # by name, in the order of the file

    def data(self) -> Bytes:
        """The bytes of the file, mapped and not read."""
        return np.memmap(self.path, np.uint8, "r")


def read_header(path: Path, name: str) -> GgufHeader:
    """Read and check the header of the file at `path`."""
    try:
        with open_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Reader(content).header(path)
    except _FaultError as fault:
        raise CheckpointError(f"{name} is not a sound GGUF file: {fault}", fault.remedy) from None
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise CheckpointError(f"{name} cannot be read ({reason(error)})", "download it again") from error


class _FaultError(Exception):
    """What is wrong with the file, and what to do."""

    def __init__(self, what: str, remedy: str = "download it again, or make it again with llama.cpp") -> None:
        super().__init__(what)
        self.remedy = remedy


class _Reader:
    """Reads a mapped file from its beginning; nothing behind the end of the file or the limit is read."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content, self._at = content, 0
        self._end = min(len(content), MAX_HEADER)

    def header(self, path: Path) -> GgufHeader:
        """The header, checked."""
        if self._take(4) != MAGIC:
            raise _FaultError("it does not begin with GGUF", "give a file that llama.cpp can load")
        version = self._number("I")
        if version not in VERSIONS:
            swapped = int.from_bytes(int(version).to_bytes(4, "little"), "big")
            what = f"version {version}" if swapped not in VERSIONS else "big-endian"
            raise _FaultError(f"it is {what}", "convert it again with llama.cpp for a little-endian machine")
        tensors, keys = self._count(MAX_TENSORS, "tensors"), self._count(MAX_KEYS, "keys")
        values: dict[str, Any] = {}
        for _ in range(keys):
            key = self._text(MAX_NAME)
            if key in values:
                raise _FaultError(f"the key {key!r} is there twice")
            values[key] = self._value(self._number("I"), key)
        return GgufHeader(path, values, self._tensors(tensors, _alignment(values)))

    def _tensors(self, count: int, alignment: int) -> dict[str, TensorEntry]:
        stated = [self._tensor() for _ in range(count)]
        start = -(-self._at // alignment) * alignment
        entries: dict[str, TensorEntry] = {}
        end, last = start, "the header"
        for name, kind, shape, offset, size in sorted(stated, key=lambda each: each[3]):
            if offset % alignment:
                raise _FaultError(f"{name} begins at {offset}, which is no multiple of {alignment}")
            if start + offset < end:
                raise _FaultError(f"{name} overlaps {last}")
            end, last = start + offset + size, name
            if end > len(self._content):
                raise _FaultError(f"{name} ends at byte {end} of {len(self._content)}", "download it again")
            if name in entries:
                raise _FaultError(f"the tensor {name} is there twice")
            entries[name] = TensorEntry(name, kind, shape, start + offset, size)
        return entries

    def _tensor(self) -> tuple[str, str, tuple[int, ...], int, int]:
        """Name, type, shape, offset in the data and bytes."""
        name = self._text(MAX_NAME)
        axes = self._number("I")
        if not 1 <= axes <= MAX_AXES:
            raise _FaultError(f"{name} has {axes} axes, and a tensor has 1 to {MAX_AXES}")
        sizes = [self._number("Q") for _ in range(axes)]
        kind, (block, block_bytes) = _type(name, self._number("I"))
        values = math.prod(sizes)
        if values < 1 or values // block * block_bytes > len(self._content):
            raise _FaultError(f"{name} is {' x '.join(map(str, sizes))} of {kind}, more than the file holds")
        if sizes[0] % block:
            raise _FaultError(f"{name} has rows of {sizes[0]} values, and {kind} has blocks of {block}")
        return name, kind, tuple(reversed(sizes)), self._number("Q"), values // block * block_bytes

    def _value(self, kind: int, key: str) -> Any:
        if kind == _ARRAY:
            return self._array(key)
        if kind == _STRING:
            return self._text(MAX_STRING)
        if kind not in _NUMBERS:
            raise _FaultError(f"{key} is of the unknown type {kind}")
        return self._number(_NUMBERS[kind])

    def _array(self, key: str) -> Any:
        kind, count = self._number("I"), self._number("Q")
        if count > MAX_ITEMS:
            raise _FaultError(f"{key} has {count} items, more than {MAX_ITEMS}")
        if kind == _STRING:
            return [self._text(MAX_STRING) for _ in range(count)]
        if kind not in _NUMBERS:
            raise _FaultError(f"{key} is an array of the unknown type {kind}")
        item = np.dtype(f"<{_NUMBERS[kind]}")
        return np.frombuffer(self._take(count * item.itemsize), item)

    def _count(self, most: int, what: str) -> int:
        count: int = self._number("Q")
        if count > most:
            raise _FaultError(f"it states {count} {what}, more than {most}")
        return count

    def _number(self, kind: str) -> Any:
        form = f"<{kind}"
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _text(self, most: int) -> str:
        length = self._number("Q")
        if length > most:
            raise _FaultError(f"a text at byte {self._at - 8} has {length} bytes, more than {most}")
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise _FaultError(f"the text at byte {self._at - length} is not UTF-8") from None

    def _take(self, count: int) -> bytes:
        at, self._at = self._at, self._at + count
        if self._at > self._end:
            where = (
                "the file ends in its header" if self._at > len(self._content) else "its header is too long"
            )
            raise _FaultError(f"{where} ({self._end} bytes)", "download it again")
        return self._content[at : self._at]


def _alignment(values: Mapping[str, Any]) -> int:
    alignment = values.get("general.alignment", 32)
    if type(alignment) is not int or not 8 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise _FaultError(
            f"general.alignment is {alignment!r:.40}, which is no power of two from 8 to {MAX_ALIGNMENT}"
        )
    return alignment


def _type(name: str, number: int) -> tuple[str, Sequence[int]]:
    """The name of a type, and the values and the bytes of its blocks."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        kind = GGMLQuantizationType(number)
        return kind.name, GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError):
        raise _FaultError(
            f"{name} is of the unknown type {number}", "give a file of a usual type, such as Q4_K_M or Q8_0"
        ) from None


SUFFIX = ".gguf"


def find_gguf(name: str) -> Path | None:
    """The GGUF file that `name` is or holds; None where it is something else.

    A directory that holds weights of a checkpoint counts as a checkpoint.
    """
    path = Path(name).expanduser()
    if path.suffix.lower() == SUFFIX and not path.is_dir():
        if not path.is_file():
            raise CheckpointError(f"there is no file {name}", "check the path")
        return path
    if not path.is_dir() or any((path / file).is_file() for file in WEIGHTS):
        return None
    files = sorted(file for file in path.iterdir() if file.suffix.lower() == SUFFIX and file.is_file())
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise CheckpointError(
            f"{name} holds {len(files)} GGUF files ({names})", "give the path of one of them"
        )
    return files[0] if files else None
