"""Archives and the address of a drafter: spec/16-archive.md. `Part` can be told to write one field wrong."""

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ALIGNMENT = 16_384


@dataclass(frozen=True)
class Part:
    """One entry of an archive, and what is wrong with its headers.

    Attributes:
        name, data: of the file.
        local, central: fields of the two headers that have another value: version, flags, method, time, date,
            crc, size, length (the second size), and of `central` made_by, disk, offset.
        extra: the extra field of the local header, in place of the right one.
    """

    name: str
    data: bytes
    local: Mapping[str, int] = field(default_factory=dict)
    central: Mapping[str, int] = field(default_factory=dict)
    extra: bytes | None = None

    def fields(self, changes: Mapping[str, int]) -> bytes:
        others = ("made_by", "disk", "offset")
        values = {
            "version": 10, "flags": 0, "method": 0, "time": 0, "date": 33, "crc": zlib.crc32(self.data),
            "size": len(self.data), "length": len(self.data), "name": len(self.name.encode()),
        } | {name: value for name, value in changes.items() if name not in others}  # fmt: skip
        return struct.pack("<HHHHHIIIH", *values.values())

    def head(self, at: int) -> bytes:
        """The local header, name and extra field of an entry at a byte."""
        name = self.name.encode()
        extra = self.extra
        if extra is None:
            zeros = -(at + 30 + len(name) + 6) % ALIGNMENT
            extra = struct.pack("<HHH", 0xD935, 2 + zeros, ALIGNMENT) + bytes(zeros)
        return b"PK\3\4" + self.fields(self.local) + struct.pack("<H", len(extra)) + name + extra

    def record(self, at: int) -> bytes:
        """The record of the directory."""
        changed = self.central
        start = struct.pack("<H", changed.get("made_by", 10)) + self.fields({**self.local, **changed})
        rest = struct.pack("<HHHHII", 0, 0, changed.get("disk", 0), 0, 0, changed.get("offset", at))
        return b"PK\1\2" + start + rest + self.name.encode()


def archive_of(parts: Sequence[Part], order: Sequence[int] | None = None) -> bytes:
    """The bytes of an archive.

    Args:
        parts: its entries.
        order: of the records in the directory; that of the entries when None.
    """
    data, records = b"", []
    for part in parts:
        records.append(part.record(len(data)))
        data += part.head(len(data)) + part.data
    directory = b"".join(records[i] for i in (range(len(parts)) if order is None else order))
    count = len(parts)
    end = struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, count, count, len(directory), len(data), 0)
    return data + directory + end


def begins(parts: Sequence[Part]) -> list[int]:
    """The first byte of each file."""
    found, at = [], 0
    for part in parts:
        found.append(at + len(part.head(at)))
        at = found[-1] + len(part.data)
    return found


def address_of(files: Mapping[str, Mapping[str, Any]]) -> str:
    """The address of the drafter in the field `files` of a manifest."""
    names = sorted((name for name in files if name.startswith("drafter/")), key=lambda name: name.encode())
    lines = ["omnidraft.drafter 1\n"]
    lines += [f"{files[name]['sha256']} {files[name]['bytes']} {name}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def index_of(manifest: bytes, **changes: Any) -> dict[str, Any]:
    """The fields of a pack.json."""
    fields = {
        "format": "omnidraft.pack", "version": 1, "manifest": hashlib.sha256(manifest).hexdigest(),
        "device": "android-cpu", "drafter": "with", "left_out": {},
    }  # fmt: skip
    return fields | changes


def held(files: Sequence[str], index: Mapping[str, Any]) -> list[str]:
    """The files that an archive with an index holds."""
    names = [name for name in files if name not in index["left_out"]]
    if index["drafter"] == "with":
        return names
    return [name for name in names if name.startswith("drafter/") == (index["drafter"] == "only")]


def index_bytes(index: Mapping[str, Any]) -> bytes:
    return (json.dumps(index, indent=2, sort_keys=True) + "\n").encode()


def runs_of(data: bytes) -> list[str | int]:
    """Bytes as hexadecimal text, and long runs of zeros as their numbers."""
    runs: list[str | int] = []
    at = 0
    while at < len(data):
        end = data.find(bytes(16), at)
        end = len(data) if end < 0 else end
        if end > at:
            runs.append(data[at:end].hex())
        at = end
        while end < len(data) and data[end] == 0:
            end += 1
        if end > at:
            runs.append(end - at)
        at = end
    return runs


def edits_of(base: bytes, data: bytes) -> list[list[Any]]:
    """How `data` differs from `base`: begin and end in `base`, and the runs there."""
    if len(base) != len(data):
        begin = next((i for i, (a, b) in enumerate(zip(base, data, strict=False)) if a != b), len(base))
        begin = min(begin, len(data))
        most = min(len(base), len(data)) - begin
        end = next((i for i in range(most) if base[-1 - i] != data[-1 - i]), most)
        return [[begin, len(base) - end, runs_of(data[begin : len(data) - end])]]
    different = [i for i, (a, b) in enumerate(zip(base, data, strict=True)) if a != b]
    edits: list[list[Any]] = []
    for i in different:
        if edits and i - edits[-1][1] < 8:
            edits[-1][1] = i + 1
        else:
            edits.append([i, i + 1])
    return [[begin, end, runs_of(data[begin:end])] for begin, end in edits]
