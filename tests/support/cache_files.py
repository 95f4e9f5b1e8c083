"""Cache files written from the spec and not with the encoder, right ones and spoiled ones."""

from __future__ import annotations

import struct
import zlib

from omnidraft.runtime.vocab.cache_file import HEADER_BYTES, MAGIC
from support.tables import GRAM_IDS
from support.toy import TARGET


def build(
    *,
    magic: bytes = MAGIC,
    version: int = 2,
    widths: tuple[int, int, int, int] = (1, 1, 1, 1),
    entries: int | None = None,
    tick: int = 9,
    reserved: int = 0,
    prints: str = "d" * 64 + "e" * 64,
    targets: bytes = bytes(GRAM_IDS),
    lengths: bytes = b"\x03\x02\x03\x02",
    pieces: bytes = b"\x01\x02\x03\x01\x04\x01\x02\x00\x02\x03",
    ticks: bytes = b"\x00\x01\x02\x03",
    counts: bytes = b"\x01\x02\x03\x04\x00\x01\x02\x03",
) -> bytes:
    """A file from its parts, checksums right: written from the spec, not with the encoder."""
    sections = targets, lengths, pieces, ticks, counts
    header = magic + struct.pack("<I", version) + bytes(widths) + bytes.fromhex(prints)
    header += struct.pack("<I", len(lengths) if entries is None else entries)
    header += struct.pack("<II", tick, reserved)
    for section in sections:
        header += struct.pack("<II", len(section), zlib.crc32(section))
    return header + struct.pack("<I", zlib.crc32(header)) + b"".join(sections)


def build_version_1() -> bytes:
    """A whole file of version 1, with a replica and a writer."""
    sections = (
        bytes(GRAM_IDS), b"\x03\x02\x03\x02", b"\x01\x02\x03\x01\x04\x01\x02\x00\x02\x03",
        b"\x00\x01\x02\x03", struct.pack("<Q", 1), b"\x01\x02\x03\x04\x00\x01\x02\x03",
    )  # fmt: skip
    header = MAGIC + struct.pack("<I", 1) + b"\x01" * 4 + bytes.fromhex("d" * 64 + "e" * 64)
    header += struct.pack("<IIQII", len(GRAM_IDS), 1, 1, 9, 0)
    for section in sections:
        header += struct.pack("<II", len(section), zlib.crc32(section))
    return header + struct.pack("<I", zlib.crc32(header)) + b"".join(sections)


INVALID: dict[str, tuple[str, bytes]] = {
    "empty": ("not_a_cache", b""),
    "another kind": ("not_a_cache", b"PK\x03\x04" + bytes(200)),
    "the magic's line ends rewritten": ("not_a_cache", build().replace(b"\r\n", b"\n", 1)),
    "the magic alone": ("truncated", MAGIC),
    "half a header": ("truncated", build()[:100]),
    "version 1": ("version", build_version_1()),
    "version 1 of another length": ("version", build_version_1()[:40]),
    "version 3": ("version", build(version=3)),
    "version 3 of another length": ("version", build(version=3)[:40]),
    "version 0": ("version", build(version=0)),
    "a bit of the header": ("checksum", build()[:90] + b"\x01" + build()[91:]),
    "a bit of a section": ("checksum", build()[:-1] + b"\x07"),
    "the last byte missing": ("truncated", build()[:-1]),
    "no sections": ("truncated", build()[:HEADER_BYTES]),
    "a byte more": ("trailing_bytes", build() + b"\0"),
    "a file behind the file": ("trailing_bytes", build() + build()),
    "a reserved bit": ("reserved", build(reserved=1)),
    "a width of 3": ("width", build(widths=(1, 1, 3, 1))),
    "a width of 0": ("width", build(widths=(0, 1, 1, 1))),
    "four thousand million entries": ("limits", build(entries=2**32 - 1)),
    "an entry more than a cache may have": ("limits", build(entries=2**23 + 1)),
    "an entry more than targets": ("section_length", build(entries=5)),
    "an entry less than targets": ("section_length", build(entries=3)),
    "hits alone": ("section_length", build(counts=b"\x01\x02\x03\x04")),
    "counts of two devices": ("section_length", build(counts=b"\x01\x02\x03\x04\x00\x01\x02\x03" * 2)),
    "half a piece": ("section_length", build(widths=(1, 2, 1, 1), pieces=bytes(9))),
    "a piece more than lengths say": ("section_length", build(pieces=bytes(11))),
    "a spelling of one piece": ("spelling", build(lengths=b"\x03\x02\x04\x01")),
    "a spelling of none": ("spelling", build(lengths=b"\x03\x02\x05\x00")),
    "a target id of 2^31": (
        "id_range",
        build(widths=(4, 1, 1, 1), targets=struct.pack("<4I", *GRAM_IDS[:3], 2**31)),
    ),
    "a draft id of 2^31": (
        "id_range",
        build(widths=(1, 4, 1, 1), pieces=struct.pack("<10I", 1, 2, 3, 1, 4, 1, 2, 0, 2, 2**31)),
    ),
    "an entry twice": ("duplicate", build(targets=bytes([GRAM_IDS[0], *GRAM_IDS[:3]]))),
    "entries in disorder": ("order", build(targets=bytes(reversed(GRAM_IDS)))),
    "accepted more often than used": ("counts", build(counts=b"\x01\x02\x03\x04\x02\x01\x02\x03")),
    "used in a round to come": ("counts", build(ticks=b"\x00\x01\x02\x0a")),
    "a wider column of zeros": ("not_canonical", build(widths=(1, 1, 1, 2), counts=bytes(16))),
    "a wider column than needed": (
        "not_canonical",
        build(widths=(1, 1, 2, 1), ticks=b"\x00\x00\x01\x00\x02\x00\x03\x00"),
    ),
    "another drafter": ("foreign_vocabulary", build(prints="c" * 64 + "e" * 64)),
    "another target": ("foreign_vocabulary", build(prints="d" * 64 + "f" * 64)),
    "a target id outside the map": ("id_range", build(targets=bytes([*GRAM_IDS[:3], len(TARGET)]))),
    "a draft id outside the map": (
        "id_range",
        build(pieces=b"\x01\x02\x03\x01\x04\x01\x02\x00\x02\x08"),
    ),
    "a piece of another token": ("spelling", build(pieces=b"\x01\x02\x03\x01\x04\x01\x02\x00\x02\x04")),
    "lengths of other tokens": ("spelling", build(lengths=b"\x02\x03\x03\x02")),
    "a token that is not an n-gram": ("spelling", build(targets=bytes([TARGET.index("S"), *GRAM_IDS[1:]]))),
    "an orphan": ("spelling", build(targets=bytes(sorted([TARGET.index("X"), *GRAM_IDS[1:]])))),
}
