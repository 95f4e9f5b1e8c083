"""The file of an n-gram cache, format version 2: spec/06-ngram-cache.md.

Reading is total: every length is checked before it is used, and each fault has a name.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from omnidraft import defaults
from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.cache_table import CacheTable
from omnidraft.runtime.vocab.vocab_map import Ragged

MAGIC = b"\x89ODNC\r\n\x1a"
VERSION = 2
MAX_ENTRIES = defaults.CACHE_MAX_ENTRIES  # times 255 draft tokens stays below 2^31
MAX_FILE_BYTES = 1 << 28

# magic, version, widths of targets, pieces, ticks and counts, fingerprints of drafter and target, entries,
# tick, reserved, then length and CRC-32 of each section
_HEADER = struct.Struct("<8sI4B32s32sIII10I")
HEADER_BYTES = _HEADER.size + 4  # and its own CRC-32
SECTIONS = ("targets", "lengths", "pieces", "ticks", "counts")
Numbers = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class CacheHeader:
    """The first 136 bytes, verified: the sections that follow and their lengths."""

    widths: tuple[int, int, int, int]  # of targets, pieces, ticks, counts
    draft_fingerprint: str
    target_fingerprint: str
    entries: int
    tick: int
    lengths: tuple[int, ...]  # bytes of each section
    checksums: tuple[int, ...]

    @property
    def file_bytes(self) -> int:
        """Bytes of the whole file."""
        return HEADER_BYTES + sum(self.lengths)


def encode(table: CacheTable) -> bytes:
    """The bytes of a table: equal tables give equal bytes.

    Raises:
        CacheFileError: `limits`, where the file would be larger than a reader takes.
    """
    widths = _widths(table)
    targets, pieces, ticks, counts = (
        column.astype(f"<u{width}").tobytes() for column, width in zip(_columns(table), widths, strict=True)
    )
    lengths = table.spellings.lengths.astype("u1").tobytes()
    sections = (targets, lengths, pieces, ticks, counts)
    header = _HEADER.pack(
        MAGIC, VERSION, *widths,
        bytes.fromhex(table.draft_fingerprint), bytes.fromhex(table.target_fingerprint),
        len(table), table.tick, 0,
        *(number for section in sections for number in (len(section), zlib.crc32(section))),
    )  # fmt: skip
    size = HEADER_BYTES + sum(map(len, sections))
    _demand(size <= MAX_FILE_BYTES, "limits", f"it would have {size} bytes, more than {MAX_FILE_BYTES}")
    return b"".join([header, struct.pack("<I", zlib.crc32(header)), *sections])


def decode(data: bytes) -> CacheTable:
    """The table in a file's bytes.

    Raises:
        CacheFileError: with the name of the first fault, in the order of spec/06-ngram-cache.md.
    """
    header = decode_header(data)
    _demand(
        header.file_bytes <= MAX_FILE_BYTES,
        "limits",
        f"it says that it has {header.file_bytes} bytes, more than {MAX_FILE_BYTES}",
    )
    _demand(len(data) >= header.file_bytes, "truncated", _cut(len(data), header.file_bytes))
    extra = len(data) - header.file_bytes
    _demand(extra == 0, "trailing_bytes", f"it goes on for {extra} bytes after its end")
    ends = list(accumulate(header.lengths, initial=HEADER_BYTES))
    sections = [data[a:b] for a, b in pairwise(ends)]
    for name, section, checksum in zip(SECTIONS, sections, header.checksums, strict=True):
        _demand(zlib.crc32(section) == checksum, "checksum", f"its section of {name} is damaged")
    table = _table(header, sections)
    _check_ids(table)
    _check_counts(table)
    _check_canonical(table, header)
    return table


def decode_header(data: bytes) -> CacheHeader:
    """The header of a file of at least these bytes."""
    _demand(data[:8] == MAGIC, "not_a_cache", "it is not an n-gram cache")
    _demand(len(data) >= 12, "truncated", _cut(len(data), HEADER_BYTES))
    version = int.from_bytes(data[8:12], "little")
    _demand(
        version == VERSION,
        "version",
        f"it has format version {version}, this omnidraft reads {VERSION}",
    )
    _demand(len(data) >= HEADER_BYTES, "truncated", _cut(len(data), HEADER_BYTES))
    checksum = int.from_bytes(data[_HEADER.size : HEADER_BYTES], "little")
    _demand(zlib.crc32(data[: _HEADER.size]) == checksum, "checksum", "its header is damaged")
    fields = _HEADER.unpack_from(data)
    widths = fields[2:6]
    draft, target, entries, tick, reserved = fields[6:11]
    header = CacheHeader(widths, draft.hex(), target.hex(), entries, tick, fields[11::2], fields[12::2])
    _demand(reserved == 0, "reserved", f"its reserved field is {reserved}, not 0")
    _demand(set(widths) <= {1, 2, 4}, "width", f"its columns are {widths} bytes wide, not 1, 2 or 4")
    _check_lengths(header)
    return header


def _check_lengths(header: CacheHeader) -> None:
    """The sections must be as long as the number of entries says."""
    n = header.entries
    _demand(n <= MAX_ENTRIES, "limits", f"it has {n} entries, more than {MAX_ENTRIES}")
    targets, pieces, ticks, counts = header.widths
    expected = (n * targets, n, header.lengths[2], n * ticks, 2 * n * counts)
    for name, length, right in zip(SECTIONS, header.lengths, expected, strict=True):
        _demand(length == right, "section_length", f"its section of {name} has {length} bytes, not {right}")
    _demand(
        header.lengths[2] % pieces == 0,
        "section_length",
        f"its section of pieces has {header.lengths[2]} bytes, which is not a multiple of {pieces}",
    )


def _table(header: CacheHeader, sections: Sequence[bytes]) -> CacheTable:
    """The columns as arrays, ids still unchecked except that they fit 31 bits."""
    width = header.widths
    lengths = np.frombuffer(sections[1], dtype="u1").astype(np.int64)
    pieces = _unpack(sections[2], width[1])
    total = int(lengths.sum())
    _demand(
        total == len(pieces),
        "section_length",
        f"its spellings have {total} pieces and its section of pieces {len(pieces)}",
    )
    short = int(lengths.min(initial=2))
    _demand(short >= 2, "spelling", f"it has a spelling of {short} pieces; an n-gram has 2 or more")
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    targets = _unpack(sections[0], width[0])
    for which, ids in (("target", targets), ("draft", pieces)):
        largest = int(ids.max(initial=0))
        _demand(largest < 1 << 31, "id_range", f"it holds {which} id {largest}, more than 2^31 - 1")
    hits, accepted = _unpack(sections[4], width[3]).astype(np.uint32).reshape(2, header.entries)
    return CacheTable(
        header.draft_fingerprint, header.target_fingerprint, header.tick,
        targets.astype(np.int32), Ragged(pieces.astype(np.int32), offsets),
        _unpack(sections[3], width[2]).astype(np.uint32), hits, accepted,
    )  # fmt: skip


def _check_ids(table: CacheTable) -> None:
    """Target ids ascend, without repetition."""
    wrong = np.flatnonzero(table.targets[1:] <= table.targets[:-1])
    if len(wrong):
        a, b = (int(target_id) for target_id in table.targets[wrong[0] : wrong[0] + 2])
        _demand(a != b, "duplicate", f"it repeats target id {a}")
        _demand(a < b, "order", f"it holds target id {b} after {a}")


def _check_counts(table: CacheTable) -> None:
    """Refuse numbers that no cache can have counted."""
    _demand(
        bool((table.accepted <= table.hits).all()), "counts", "it has an entry accepted more often than used"
    )
    latest = int(table.ticks.max(initial=0))
    _demand(latest <= table.tick, "counts", f"it has an entry used in round {latest} of {table.tick}")


def _check_canonical(table: CacheTable, header: CacheHeader) -> None:
    """Another way to write the same table is refused, so that equal tables are equal files."""
    right = _widths(table)
    _demand(
        header.widths == right,
        "not_canonical",
        f"its columns are {header.widths} bytes wide where {right} are enough",
    )


def _demand(holds: bool, fault: str, sentence: str) -> None:
    if not holds:
        raise CacheFileError(sentence, fault=fault)


def _cut(size: int, least: int) -> str:
    return f"it is cut short: {size} bytes of at least {least}"


def _columns(table: CacheTable) -> tuple[npt.NDArray[np.generic], ...]:
    return table.targets, table.spellings.values, table.ticks, np.concatenate([table.hits, table.accepted])


def _widths(table: CacheTable) -> tuple[int, ...]:
    """The fewest bytes, 1, 2 or 4, that hold the largest number of each column."""
    largest = [int(np.max(column, initial=0)) for column in _columns(table)]
    return tuple(1 if top < 1 << 8 else 2 if top < 1 << 16 else 4 for top in largest)


def _unpack(section: bytes, width: int) -> Numbers:
    return np.frombuffer(section, dtype=f"<u{width}")
