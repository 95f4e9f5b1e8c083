"""A safetensors file, read strictly: spec/03-bundle.md, "safetensors". The caller knows the tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnidraft.runtime.disk.json_fields import array, integer, mapping, text
from omnidraft.runtime.disk.strict_json import parse

LENGTH_BYTES = 8
SIZES = {  # bytes of a value
    "BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
_MOST = (1 << 53) - 1


class TensorFileError(ValueError):
    """A file that is not laid out as it must be.

    Attributes:
        fault: `truncated`, `header`, `layout` or `trailing_bytes`.
    """

    def __init__(self, message: str, fault: str) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True)
class Tensor:
    """One tensor: its type, its sizes, and its bytes in row-major order, little-endian."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


def read_header(data: bytes, most: int) -> tuple[dict[str, str], dict[str, Any], int]:
    """The metadata, the entries of the tensors, and the byte at which the tensors begin.

    Args:
        most: bytes of the header at most.

    Raises:
        TensorFileError: `truncated` or `header`.
    """
    if len(data) < LENGTH_BYTES:
        raise TensorFileError(f"it has {len(data)} bytes and a header's length takes 8", "truncated")
    start = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    if start > LENGTH_BYTES + most or data[LENGTH_BYTES : LENGTH_BYTES + 1] not in (b"{", b""):
        raise TensorFileError("it is not a safetensors file", "header")
    if len(data) < start:
        raise TensorFileError(f"it has {len(data)} bytes of a header of {start}", "truncated")
    try:
        entries = mapping(parse(bytes(data[LENGTH_BYTES:start])))
        metadata = {name: text(value) for name, value in mapping(entries.pop("__metadata__", {})).items()}
    except ValueError as error:
        raise TensorFileError(f"it is not a safetensors file ({error!s:.80})", "header") from None
    return metadata, entries, start


def read_tensors(data: bytes, entries: Mapping[str, Any], start: int) -> dict[str, Tensor]:
    """The tensors of a file: one after another, without holes, to the end of the file.

    Raises:
        TensorFileError: `layout`, `truncated` or `trailing_bytes`.
    """
    try:
        layout = sorted((_entry(name, entry) for name, entry in entries.items()), key=lambda each: each[1])
    except (KeyError, ValueError) as error:
        raise TensorFileError(
            f"its tensors are not laid out as in safetensors ({error!s:.80})", "layout"
        ) from None
    at = 0
    for name, (begin, end), _, _ in layout:
        if begin != at:
            raise TensorFileError(f"{name!r:.80} begins at {begin} and not at {at}", "layout")
        at = end
    if len(data) < start + at:
        raise TensorFileError(f"it has {len(data)} bytes of {start + at}", "truncated")
    if len(data) > start + at:
        raise TensorFileError(f"it has {len(data) - start - at} bytes too many", "trailing_bytes")
    view = memoryview(data)[start:]
    return {name: Tensor(dtype, shape, view[begin:end]) for name, (begin, end), dtype, shape in layout}


def _entry(name: str, value: object) -> tuple[str, tuple[int, int], str, tuple[int, ...]]:
    entry = mapping(value)
    dtype, shape = text(entry["dtype"]), tuple(integer(n, 0, _MOST) for n in array(entry["shape"], 8))
    begin, end = (integer(n, 0, _MOST) for n in array(entry["data_offsets"], 2, 2))
    if len(entry) != 3 or dtype not in SIZES:
        raise ValueError(f"{name!r:.80} is a tensor of type {dtype!r:.20} with {len(entry)} fields")
    size = SIZES[dtype]
    for n in shape:
        size *= n
    if end - begin != size:
        raise ValueError(f"{name!r:.80} has {end - begin} bytes and its shape {size}")
    return name, (begin, end), dtype, shape
