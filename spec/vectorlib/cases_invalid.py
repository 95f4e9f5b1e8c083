"""Vectors of `cache/invalid`: files with one fault each, and the fault's name."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

from vectorlib.cases_cache import EXAMPLE, FLAKE, MINE, YOURS, grams
from vectorlib.memory import MAGIC, Columns, Table, columns_of, encode
from vectorlib.writer import VectorWriter, vector

GOOD = encode(EXAMPLE)
HEAD = 156
Case = tuple[str, str, str, bytes, str | None]  # name, why, fault, bytes, map


def write(writer: VectorWriter) -> None:
    found = []
    for make in (_cut, _header, _sections, _ids, _counts, _other_ways, _foreign):
        for name, why, fault, data, map_name in make():
            writer.file(f"cache/invalid/{name}.bin", data)
            found.append(vector(name, why, {"file": f"{name}.bin", "map": map_name}, {"fault": fault}))
    writer.vectors("cache/invalid", "files", found)


def _cut() -> Iterator[Case]:
    """Too little, too much, or something else."""
    yield "empty_file", "a file of no bytes has no magic", "not_a_cache", b"", None
    yield "magic_half", "cut inside the magic", "not_a_cache", GOOD[:5], None
    yield (
        "magic_line_ends",
        "a transfer that rewrote line ends",
        "not_a_cache",
        GOOD.replace(b"\r\n", b"\n"),
        None,
    )
    yield "magic_high_bit", "a transfer of seven bits", "not_a_cache", b"\x09" + GOOD[1:], None
    yield "other_file", "a PNG", "not_a_cache", b"\x89PNG\r\n\x1a\n" + bytes(200), None
    yield "text_file", "JSON", "not_a_cache", b'{"entries": []}', None
    yield "magic_only", "cut after the magic", "truncated", GOOD[:8], None
    yield "version_half", "cut inside the version", "truncated", GOOD[:10], None
    yield "header_half", "cut inside the header", "truncated", GOOD[:100], None
    yield "header_only", "cut after the header", "truncated", GOOD[:HEAD], None
    yield "section_half", "cut inside the pieces", "truncated", GOOD[: HEAD + 6], None
    yield "last_byte_missing", "cut before the last byte", "truncated", GOOD[:-1], None
    yield "one_byte_more", "a byte behind the end", "trailing_bytes", GOOD + b"\0", None
    yield "two_files", "another cache behind the end", "trailing_bytes", GOOD + GOOD, None


def _header() -> Iterator[Case]:
    """A single bad field, under a right checksum."""
    yield "version_0", "no such version", "version", _patched(8, "<I", 0), None
    yield "version_2", "a file of the future", "version", _patched(8, "<I", 2), None
    yield (
        "version_2_cut",
        "the version is named before the length",
        "version",
        _patched(8, "<I", 2)[:12],
        None,
    )
    yield "version_big_endian", "integers in the wrong order", "version", _patched(8, ">I", 1), None
    yield "header_flipped_bit", "the tick changed, its checksum did not", "checksum", _flipped(96), None
    yield "header_checksum", "the checksum itself is damaged", "checksum", _flipped(152), None
    yield "reserved", "the reserved field is not 0", "reserved", _patched(100, "<I", 1), None
    yield "width_0", "a column of no width", "width", _patched(12, "<B", 0), None
    yield "width_3", "a width that is no power of two", "width", _patched(13, "<B", 3), None
    yield "width_8", "64-bit ticks", "width", _patched(14, "<B", 8), None
    yield (
        "too_many_entries",
        "2^23 + 1 entries are promised",
        "limits",
        _patched(80, "<I", (1 << 23) + 1),
        None,
    )
    yield (
        "most_entries",
        "2^32 - 1 entries: no allocation before the check",
        "limits",
        _patched(80, "<I", (1 << 32) - 1),
        None,
    )
    yield "too_many_replicas", "17 replicas are promised", "limits", _patched(84, "<I", 17), None


def _sections() -> Iterator[Case]:
    """Lengths that do not fit, and damage that only a checksum notices."""
    yield "entries_3", "an entry more than the sections have", "section_length", _patched(80, "<I", 3), None
    yield "replicas_0", "a replica less than the sections have", "section_length", _patched(84, "<I", 0), None
    for i, name in enumerate(("targets", "lengths", "pieces", "ticks", "replicas", "counts")):
        at = HEAD + sum(struct.unpack_from("<I", GOOD, 104 + 8 * k)[0] for k in range(i))
        yield f"flipped_{name}", f"a bit of the {name} changed", "checksum", _flipped(at), None
    huge = _patched(104 + 16, "<I", (1 << 32) - 2)
    yield (
        "pieces_length_huge",
        "4 GB of pieces are promised: nothing is reserved for them",
        "truncated",
        huge,
        None,
    )
    odd = columns_of(replace(EXAMPLE, entries={5: ((1, 300, 3), 7), 6: ((1, 4), 4)}))
    one_less = odd.pack(lambda s: s.__setitem__(2, s[2][:-1]))
    yield "pieces_odd", "half a piece at the end of its section", "section_length", one_less, None
    yield (
        "pieces_missing",
        "the lengths promise a piece more",
        "section_length",
        _column(2, [1, 2, 3, 1]),
        None,
    )
    yield (
        "pieces_left",
        "a piece that no spelling has",
        "section_length",
        _column(2, [1, 2, 3, 1, 4, 4]),
        None,
    )


def _ids() -> Iterator[Case]:
    yield "spelling_of_1", "an n-gram has two draft tokens at least", "spelling", _spelled((1,)), None
    yield "spelling_of_0", "and not none", "spelling", _spelled(()), None
    yield (
        "target_id_huge",
        "a target id of 2^31",
        "id_range",
        _column(0, [5, 1 << 31], widths=[4, 1, 1, 1]),
        None,
    )
    yield (
        "draft_id_huge",
        "a draft id of 2^31",
        "id_range",
        _column(2, [1, 2, 3, 1, 1 << 31], widths=[1, 4, 1, 1]),
        None,
    )
    yield "duplicate_target", "one target token twice", "duplicate", _column(0, [5, 5]), None
    yield "order_of_targets", "target ids fall", "order", _column(0, [6, 5]), None
    yield "duplicate_replica", "one replica twice", "duplicate", _replicas(MINE, MINE), None
    yield "order_of_replicas", "replica ids fall", "order", _replicas(YOURS, MINE), None


def _counts() -> Iterator[Case]:
    yield "accepted_above_hits", "accepted more often than emitted", "counts", _column(5, [3, 1, 4, 0]), None
    yield "accepted_without_hits", "accepted and never emitted", "counts", _column(5, [3, 0, 2, 1]), None
    yield "tick_above_cache", "used in a round that has not been", "counts", _column(3, [10, 4]), None


def _other_ways() -> Iterator[Case]:
    """Another way to write a good table."""
    for i, name in enumerate(("targets", "pieces", "ticks", "counts")):
        widths = [2 if i == k else 1 for k in range(4)]
        yield f"wide_{name}", "a width larger than needed", "not_canonical", _columns(widths).pack(), None
    yield "idle_replica", "a replica that counted nothing", "not_canonical", _column(5, [0, 0, 0, 0]), None
    zero = columns_of(replace(EXAMPLE, counts={0: EXAMPLE.counts[MINE]}))
    yield "replica_0", "0 is no replica", "not_canonical", zero.pack(), None
    wide = columns_of(Table())
    wide.widths = [1, 1, 4, 1]
    yield "empty_wide", "a column without numbers is 1 byte wide", "not_canonical", wide.pack(), None


def _foreign() -> Iterator[Case]:
    """Good files of other vocabularies."""
    drafter, target = replace(EXAMPLE, drafter="d0" * 32), replace(EXAMPLE, target="e0" * 32)
    yield (
        "foreign_drafter",
        "learned with another drafter's tokenizer",
        "foreign_vocabulary",
        encode(drafter),
        "toy",
    )
    yield (
        "foreign_target",
        "learned with another target's tokenizer",
        "foreign_vocabulary",
        encode(target),
        "toy",
    )
    yield (
        "target_id_outside",
        "the map has 13 target tokens",
        "id_range",
        encode(Table(entries={13: ((1, 2), 0)})),
        "toy",
    )
    yield (
        "draft_id_outside",
        "the map has 9 draft tokens",
        "id_range",
        encode(Table(entries={5: ((1, 9), 0)})),
        "toy",
    )
    yield (
        "spelled_otherwise",
        "FLAKE is f la ke",
        "spelling",
        encode(Table(entries={5: ((1, 2, 2), 0)})),
        "toy",
    )
    yield "spelled_longer", "FLAKE goes on", "spelling", encode(Table(entries={5: ((1, 2, 3, 3), 0)})), "toy"
    yield "not_spelled", "nothing writes X", "spelling", encode(Table(entries={8: ((1, 2), 0)})), "toy"
    both = replace(Table(entries={**FLAKE, **grams({"LAKE": 0})}, tick=9), target="e0" * 32)
    yield "foreign_without_map", "the same, read with a map", "foreign_vocabulary", encode(both), "toy"


def _sealed(head: bytes, rest: bytes) -> bytes:
    return head + struct.pack("<I", zlib.crc32(head)) + rest


def _patched(at: int, form: str, value: int) -> bytes:
    """The example with one field of the header changed, and the header's checksum made right again."""
    head = bytearray(GOOD[: HEAD - 4])
    struct.pack_into(form, head, at, value)
    assert head[:8] == MAGIC
    return _sealed(bytes(head), GOOD[HEAD:])


def _flipped(at: int) -> bytes:
    return GOOD[:at] + bytes([GOOD[at] ^ 1]) + GOOD[at + 1 :]


def _columns(widths: list[int]) -> Columns:
    return replace(columns_of(EXAMPLE), widths=widths)


def _column(which: int, values: list[int], widths: list[int] | None = None) -> bytes:
    """The example with other values in one column."""
    found = _columns(widths or [1, 1, 1, 1])
    found.columns[which] = values
    return found.pack()


def _spelled(spelling: tuple[int, ...]) -> bytes:
    return encode(replace(EXAMPLE, entries={**EXAMPLE.entries, 6: (spelling, 4)}))


def _replicas(first: int, second: int) -> bytes:
    table = replace(EXAMPLE, counts={MINE: EXAMPLE.counts[MINE], YOURS: {5: (1, 1)}})
    found = columns_of(table)
    found.columns[4] = [first, second]
    return found.pack()
