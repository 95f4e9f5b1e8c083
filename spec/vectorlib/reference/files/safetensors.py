"""The bytes of a safetensors file, written from spec/03-bundle.md: a length, a header, the tensors."""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

Table = tuple[str, Sequence[int]]  # type, values
_FORMATS = {"U8": "B", "I32": "i", "F32": "f"}


def packed(metadata: Mapping[str, Any] | None, tables: Mapping[str, Table], **changes: Any) -> bytes:
    """A file with tables of one dimension.

    Args:
        metadata: of the header; None for none.
        tables: type and values of each, in the order of the file.
        changes: other entries of the header, by name.
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    data = b""
    for name, (kind, values) in tables.items():
        start = len(data)
        data += struct.pack(f"<{len(values)}{_FORMATS[kind]}", *values)
        header[name] = {"dtype": kind, "shape": [len(values)], "data_offsets": [start, len(data)]}
    header |= changes
    return with_header(json.dumps(header, separators=(",", ":")).encode(), data)


def with_header(header: bytes, data: bytes) -> bytes:
    """A file with any header, filled up to a multiple of 8 with spaces."""
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data
