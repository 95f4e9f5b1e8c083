"""Vectors of `cache/invalid`: files with one fault each, and the name of the fault."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

from vectorlib.cases.files.cache import EXAMPLE, grams
from vectorlib.reference.ngram_cache import MAGIC, CacheEntry, CacheTable, FileColumns, columns_of, encode
from vectorlib.writer import VectorWriter, vector

GOOD = encode(EXAMPLE)
HEAD = 136
WITH_MAP = ("version_1", "version_1_empty")
LENGTHS = 92  # where the header holds the length and the checksum of each section
Case = tuple[str, str, str, bytes]  # name, why, fault, bytes


def write(writer: VectorWriter) -> None:
    """Write the bad files and the list of their faults."""
    vectors = []
    makers = (_cut, _version, _header, _sections, _ids, _counts, _other_ways)
    whole = [(*case, "toy" if case[0] in WITH_MAP else None) for make in makers for case in make()]
    foreign = [(name, why, fault, encode(table), map_) for name, why, fault, table, map_ in _foreign()]
    for name, why, fault, data, map_name in (*whole, *foreign):
        writer.file(f"cache/invalid/{name}.bin", data)
        vectors.append(vector(name, why, {"file": f"{name}.bin", "map": map_name}, {"fault": fault}))
    writer.vectors("cache/invalid", "files", vectors)


def _cut() -> Iterator[Case]:
    """Too few bytes, too many bytes, or another file."""
    yield "empty_file", "a file of no bytes has no magic", "not_a_cache", b""
    yield "magic_half", "cut inside the magic", "not_a_cache", GOOD[:5]
    yield (
        "magic_line_ends",
        "a transfer that changed the line ends",
        "not_a_cache",
        GOOD.replace(b"\r\n", b"\n"),
    )
    yield "magic_high_bit", "a transfer of seven bits", "not_a_cache", b"\x09" + GOOD[1:]
    yield "other_file", "a PNG", "not_a_cache", b"\x89PNG\r\n\x1a\n" + bytes(200)
    yield "text_file", "JSON", "not_a_cache", b'{"entries": []}'
    yield "magic_only", "cut after the magic", "truncated", GOOD[:8]
    yield "version_half", "cut inside the version", "truncated", GOOD[:10]
    yield "header_half", "cut inside the header", "truncated", GOOD[:100]
    yield "header_only", "cut after the header", "truncated", GOOD[:HEAD]
    yield "section_half", "cut inside the pieces", "truncated", GOOD[: HEAD + 6]
    yield "last_byte_missing", "cut before the last byte", "truncated", GOOD[:-1]
    yield "one_byte_more", "a byte after the end", "trailing_bytes", GOOD + b"\0"
    yield "two_files", "another cache after the end", "trailing_bytes", GOOD + GOOD


def _version() -> Iterator[Case]:
    """Another format version: refused, whatever the rest of the file holds."""
    old = _version_1()
    yield "version_0", "version 0 does not exist", "version", _patched(8, "<I", 0)
    yield "version_1", "a whole file of version 1: it is not converted", "version", old
    yield "version_1_empty", "a file of version 1 without entries", "version", _version_1(empty=True)
    yield "version_1_cut", "the version is checked before the length", "version", old[:12]
    yield ("version_1_layout_2", "the layout of version 2 under number 1", "version", _patched(8, "<I", 1))
    yield "version_3", "a later version", "version", _patched(8, "<I", 3)
    yield (
        "version_3_cut",
        "a later version: the length of its header is unknown",
        "version",
        _patched(8, "<I", 3)[:12],
    )
    yield "version_big_endian", "integers in the wrong order", "version", _patched(8, ">I", 2)


def _version_1(*, empty: bool = False) -> bytes:
    """The worked example, or an empty cache, as version 1 wrote it: with a writer and a table of replicas."""
    sections = [b""] * 6 if empty else [
        b"\5\6", b"\3\2", b"\1\2\3\1\4", b"\7\4", struct.pack("<Q", 0x19A00000001), b"\3\1\2\0"
    ]  # fmt: skip
    head = struct.pack(
        "<8sI4B32s32sIIQII", MAGIC, 1, 1, 1, 1, 1, b"\xdd" * 32, b"\xee" * 32,
        len(sections[0]), len(sections[4]) // 8, 0x19A00000001, 9, 0,
    )  # fmt: skip
    head += b"".join(struct.pack("<II", len(s), zlib.crc32(s)) for s in sections)
    return _sealed(head, b"".join(sections))


def _header() -> Iterator[Case]:
    """One bad field, with a valid checksum."""
    yield "header_flipped_bit", "the tick changed, its checksum did not", "checksum", _flipped(84)
    yield "header_checksum", "the checksum itself is damaged", "checksum", _flipped(132)
    yield "reserved", "the reserved field is not 0", "reserved", _patched(88, "<I", 1)
    yield "width_0", "a column of width 0", "width", _patched(12, "<B", 0)
    yield "width_3", "a width that is not a power of two", "width", _patched(13, "<B", 3)
    yield "width_8", "64-bit ticks", "width", _patched(14, "<B", 8)
    yield (
        "too_many_entries",
        "the header says 2^23 + 1 entries",
        "limits",
        _patched(80, "<I", (1 << 23) + 1),
    )
    yield (
        "most_entries",
        "2^32 - 1 entries: a reader must not reserve memory before the check",
        "limits",
        _patched(80, "<I", (1 << 32) - 1),
    )


def _sections() -> Iterator[Case]:
    """Lengths that do not fit, and damage that only a checksum detects."""
    yield "entries_3", "one entry more than the sections have", "section_length", _patched(80, "<I", 3)
    yield "entries_1", "one entry less than the sections have", "section_length", _patched(80, "<I", 1)
    yield "accepted_missing", "hits and nothing more", "section_length", _column(4, [3, 1])
    yield "counts_missing", "no counts at all", "section_length", _column(4, [])
    yield "counts_twice", "the counts of two devices", "section_length", _column(4, [3, 1, 2, 0] * 2)
    for i, name in enumerate(("targets", "lengths", "pieces", "ticks", "counts")):
        at = HEAD + sum(struct.unpack_from("<I", GOOD, LENGTHS + 8 * k)[0] for k in range(i))
        yield f"flipped_{name}", f"a bit of the {name} changed", "checksum", _flipped(at)
    huge = _patched(LENGTHS + 16, "<I", (1 << 32) - 2)
    yield (
        "pieces_length_huge",
        "the header says 4 GB of pieces: a reader must not reserve them",
        "limits",
        huge,
    )
    odd = columns_of(CacheTable(entries={5: CacheEntry((1, 300, 3)), 6: CacheEntry((1, 4))}))
    one_less = odd.pack(lambda s: s.__setitem__(2, s[2][:-1]))
    yield "pieces_odd", "half a piece at the end of its section", "section_length", one_less
    yield ("pieces_missing", "the lengths need one piece more", "section_length", _column(2, [1, 2, 3, 1]))
    yield (
        "pieces_left",
        "a piece that belongs to no spelling",
        "section_length",
        _column(2, [1, 2, 3, 1, 4, 4]),
    )


def _ids() -> Iterator[Case]:
    yield "spelling_of_1", "an n-gram has at least two draft tokens", "spelling", _spelled((1,))
    yield "spelling_of_0", "a spelling of no draft tokens", "spelling", _spelled(())
    yield ("target_id_huge", "a target id of 2^31", "id_range", _column(0, [5, 1 << 31], widths=[4, 1, 1, 1]))
    yield (
        "draft_id_huge",
        "a draft id of 2^31",
        "id_range",
        _column(2, [1, 2, 3, 1, 1 << 31], widths=[1, 4, 1, 1]),
    )
    yield "duplicate_target", "one target token twice", "duplicate", _column(0, [5, 5])
    yield "order_of_targets", "target ids descend", "order", _column(0, [6, 5])


def _counts() -> Iterator[Case]:
    yield "accepted_above_hits", "accepted more often than emitted", "counts", _column(4, [3, 1, 4, 0])
    yield "accepted_without_hits", "accepted and never emitted", "counts", _column(4, [3, 0, 2, 1])
    yield "tick_above_cache", "a tick after the last round", "counts", _column(3, [10, 4])


def _other_ways() -> Iterator[Case]:
    """A good table with other bytes than the canonical ones."""
    for i, name in enumerate(("targets", "pieces", "ticks", "counts")):
        widths = [2 if i == k else 1 for k in range(4)]
        yield f"wide_{name}", "a width larger than needed", "not_canonical", _columns(widths).pack()
    wide = columns_of(CacheTable())
    wide.widths = [1, 1, 4, 1]
    yield "empty_wide", "a column without numbers is 1 byte wide", "not_canonical", wide.pack()


def _foreign() -> Iterator[tuple[str, str, str, CacheTable, str]]:
    """Good files of other vocabularies: name, why, fault, contents, map."""

    def one(target: int, *spelling: int) -> CacheTable:
        return CacheTable(entries={target: CacheEntry(spelling)})

    drafter, target = replace(EXAMPLE, drafter="d0" * 32), replace(EXAMPLE, target="e0" * 32)
    foreign = "foreign_vocabulary"
    yield "foreign_drafter", "learned with another drafter's tokenizer", foreign, drafter, "toy"
    yield "foreign_target", "learned with another target's tokenizer", foreign, target, "toy"
    yield "target_id_outside", "the map has 13 target tokens", "id_range", one(13, 1, 2), "toy"
    yield "draft_id_outside", "the map has 9 draft tokens", "id_range", one(5, 1, 9), "toy"
    yield "spelled_otherwise", "FLAKE is f la ke", "spelling", one(5, 1, 2, 2), "toy"
    longer = one(5, 1, 2, 3, 3)
    yield "spelled_longer", "one piece more than the spelling of FLAKE", "spelling", longer, "toy"
    yield "not_spelled", "X has no spelling", "spelling", one(8, 1, 2), "toy"
    yield "alias", "AB' is spelled as AB and is no leaf of the map", "spelling", one(5, 0, 1), "long"
    both = CacheTable(target="e0" * 32, tick=9, entries=grams({"FLAKE": (7,), "LAKE": (0,)}))
    yield "foreign_without_map", "another target, read with a map", foreign, both, "toy"


def _sealed(head: bytes, rest: bytes) -> bytes:
    return head + struct.pack("<I", zlib.crc32(head)) + rest


def _patched(at: int, form: str, value: int) -> bytes:
    """The example with one field of the header changed, and the header's checksum computed again."""
    head = bytearray(GOOD[: HEAD - 4])
    struct.pack_into(form, head, at, value)
    assert head[:8] == MAGIC
    return _sealed(bytes(head), GOOD[HEAD:])


def _flipped(at: int) -> bytes:
    return GOOD[:at] + bytes([GOOD[at] ^ 1]) + GOOD[at + 1 :]


def _columns(widths: list[int]) -> FileColumns:
    return replace(columns_of(EXAMPLE), widths=widths)


def _column(which: int, values: list[int], widths: list[int] | None = None) -> bytes:
    """The example with other values in one column."""
    columns = _columns(widths or [1, 1, 1, 1])
    columns.columns[which] = values
    return columns.pack()


def _spelled(spelling: tuple[int, ...]) -> bytes:
    return encode(replace(EXAMPLE, entries={**EXAMPLE.entries, 6: CacheEntry(spelling, 4, 1, 0)}))
