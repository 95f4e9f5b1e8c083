"""The bytes of a ZIP file around its entries, which names, sizes and checksums decide; spec/16-archive.md.

There is one way to write an archive. So a reader computes these bytes and compares.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 1 << 14  # bytes; a multiple of the pages of every phone
LOCAL, CENTRAL = b"PK\3\4", b"PK\1\2"
LOCAL_BYTES = 30  # of a local header, without name and extra field
MAX_ENTRIES = 1027  # the files of a manifest, the manifest, its signature and the index
_ZIP64, _PADDING = 0x0001, 0xD935  # kinds of extra fields; the second is Android's
_PLAIN, _LARGE = 10, 45  # version that is needed to extract
_DATE = 0x0021  # 1 January 1980
_FULL = 0xFFFFFFFF  # the value stands in the zip64 field


@dataclass(frozen=True)
class ArchiveEntry:
    """One file in an archive."""

    name: str
    at: int
    size: int
    crc32: int

    @property
    def begin(self) -> int:
        """The first byte of the file, a multiple of `ALIGNMENT`."""
        unpadded = self.at + LOCAL_BYTES + len(self.name) + len(self._zip64) + 6
        return -(-unpadded // ALIGNMENT) * ALIGNMENT

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        return self.begin + self.size

    @property
    def _zip64(self) -> bytes:
        """The extra field of a size that 32 bits do not hold; empty for others."""
        return struct.pack("<HHQQ", _ZIP64, 16, self.size, self.size) if self.size >= _FULL else b""

    def _fields(self) -> bytes:
        """The fields that both headers have, from `version` to the length of the name."""
        size = min(self.size, _FULL)
        version = _LARGE if self.size >= _FULL else _PLAIN
        return struct.pack("<5H3IH", version, 0, 0, 0, _DATE, self.crc32, size, size, len(self.name))

    def local_header(self) -> bytes:
        """The bytes before the file, with padding."""
        name = self.name.encode("ascii")
        padding = self.begin - self.at - LOCAL_BYTES - len(name) - len(self._zip64) - 4
        field = struct.pack("<3H", _PADDING, padding, ALIGNMENT) + bytes(padding - 2)
        extra = self._zip64 + field
        return LOCAL + self._fields() + struct.pack("<H", len(extra)) + name + extra

    def central_header(self) -> bytes:
        """The entry of the central directory."""
        extra = self._zip64[4:]
        if self.at >= _FULL:
            extra += struct.pack("<Q", self.at)
        if extra:
            extra = struct.pack("<HH", _ZIP64, len(extra)) + extra
        made_by = _LARGE if extra else _PLAIN
        fields = self._fields() if self.at < _FULL else struct.pack("<H", _LARGE) + self._fields()[2:]
        rest = struct.pack("<4HII", len(extra), 0, 0, 0, 0, min(self.at, _FULL))
        return CENTRAL + struct.pack("<H", made_by) + fields + rest + self.name.encode("ascii") + extra


def central_directory(entries: Sequence[ArchiveEntry], at: int) -> bytes:
    """The bytes behind the last file, to the end of the archive."""
    records = b"".join(entry.central_header() for entry in entries)
    count, size, large = len(entries), len(records), b""
    if at >= _FULL:
        large = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, _LARGE, _LARGE, 0, 0, count, count, size, at)
        large += struct.pack("<4sIQI", b"PK\6\7", 0, at + size, 1)
    end = struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, count, count, size, min(at, _FULL), 0)
    return records + large + end
