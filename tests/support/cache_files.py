"""Cache files written from the spec and not with the encoder, right ones and spoiled ones."""

from __future__ import annotations

import struct
import zlib

from omnidraft.runtime.vocab.cache_file import HEADER_BYTES, MAGIC
from support.tables import GRAM_IDS


def build(version: int = 2, prints: str = "d" * 64 + "e" * 64) -> bytes:
    """A file of the toy language's n-grams, checksums right."""
    sections = (
        bytes(GRAM_IDS), b"\x03\x02\x03\x02", b"\x01\x02\x03\x01\x04\x01\x02\x00\x02\x03",
        b"\x00\x01\x02\x03", b"\x01\x02\x03\x04\x00\x01\x02\x03",
    )  # fmt: skip
    header = MAGIC + struct.pack("<I", version) + b"\x01" * 4 + bytes.fromhex(prints)
    header += struct.pack("<III", len(GRAM_IDS), 9, 0)
    for section in sections:
        header += struct.pack("<II", len(section), zlib.crc32(section))
    return header + struct.pack("<I", zlib.crc32(header)) + b"".join(sections)


# The vectors of cache/invalid have every fault; these are for what happens to the files on a disk.
INVALID: dict[str, tuple[str, bytes]] = {
    "empty": ("not_a_cache", b""),
    "another kind": ("not_a_cache", b"PK\x03\x04" + bytes(200)),
    "version 1": ("version", build(version=1)),
    "a bit of a section": ("checksum", build()[:-1] + b"\x07"),
    "the last byte missing": ("truncated", build()[:-1]),
    "no sections": ("truncated", build()[:HEADER_BYTES]),
    "another target": ("foreign_vocabulary", build(prints="d" * 64 + "f" * 64)),
}
