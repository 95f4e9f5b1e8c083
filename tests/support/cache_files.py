"""Cache files written from the spec and not with the encoder, right ones and spoiled ones."""

from __future__ import annotations

import struct
import zlib

from omnidraft.runtime.vocab.cache_file import HEADER_BYTES, MAGIC
from omnidraft.runtime.vocab.cache_table import MAX_REPLICAS
from support.tables import GRAM_IDS
from support.toy import TARGET


def build(
    *,
    magic: bytes = MAGIC,
    version: int = 1,
    widths: tuple[int, int, int, int] = (1, 1, 1, 1),
    entries: int | None = None,
    replicas: int | None = None,
    writer: int = 1,
    tick: int = 9,
    reserved: int = 0,
    prints: str = "d" * 64 + "e" * 64,
    targets: bytes = bytes(GRAM_IDS),
    lengths: bytes = b"\x03\x02\x03\x02",
    pieces: bytes = b"\x01\x02\x03\x01\x04\x01\x02\x00\x02\x03",
    ticks: bytes = b"\x00\x01\x02\x03",
    ids: bytes = struct.pack("<Q", 1),
    counts: bytes = b"\x01\x02\x03\x04\x00\x01\x02\x03",
) -> bytes:
    """A file from its parts, checksums right: written from the spec, not with the encoder."""
    sections = targets, lengths, pieces, ticks, ids, counts
    header = magic + struct.pack("<I", version) + bytes(widths) + bytes.fromhex(prints)
    header += struct.pack("<I", len(lengths) if entries is None else entries)
    header += struct.pack("<I", len(ids) // 8 if replicas is None else replicas)
    header += struct.pack("<QII", writer, tick, reserved)
    for section in sections:
        header += struct.pack("<II", len(section), zlib.crc32(section))
    return header + struct.pack("<I", zlib.crc32(header)) + b"".join(sections)


def id8(*ids: int) -> bytes:
    return struct.pack(f"<{len(ids)}Q", *ids)


INVALID: dict[str, tuple[str, bytes]] = {
    "empty": ("not_a_cache", b""),
    "another kind": ("not_a_cache", b"PK\x03\x04" + bytes(200)),
    "the magic's line ends rewritten": ("not_a_cache", build().replace(b"\r\n", b"\n", 1)),
    "the magic alone": ("truncated", MAGIC),
    "half a header": ("truncated", build()[:100]),
    "version 2": ("version", build(version=2)),
    "version 2 of another length": ("version", build(version=2)[:40]),
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
    "too many replicas": ("limits", build(replicas=MAX_REPLICAS + 1)),
    "an entry more than targets": ("section_length", build(entries=5)),
    "a replica more than ids": ("section_length", build(replicas=2)),
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
    "a replica twice": ("duplicate", build(ids=id8(1, 1), counts=bytes([1, 1, 1, 1, 0, 0, 0, 0] * 2))),
    "replicas in disorder": ("order", build(ids=id8(2, 1), counts=bytes([1, 1, 1, 1, 0, 0, 0, 0] * 2))),
    "accepted more often than used": ("counts", build(counts=b"\x01\x02\x03\x04\x02\x01\x02\x03")),
    "used in a round to come": ("counts", build(ticks=b"\x00\x01\x02\x0a")),
    "an idle replica": ("not_canonical", build(counts=bytes(8))),
    "replica 0": ("not_canonical", build(ids=id8(0))),
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
    "a token that is no n-gram": ("spelling", build(targets=bytes([TARGET.index("S"), *GRAM_IDS[1:]]))),
    "an orphan": ("spelling", build(targets=bytes(sorted([TARGET.index("X"), *GRAM_IDS[1:]])))),
}
