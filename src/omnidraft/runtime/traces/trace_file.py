"""The file of a trace, format version 2: spec/12-trace.md. A header, then frames that are only ever appended.

Reading is total: every length is checked before use, and each fault has a name. A torn frame at the end, of a
write that did not finish, is not a fault: its bytes are counted and left out.
"""

import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise

from omnidraft.runtime.traces.trace import Start, Traced, TracedRound, Vocabularies
from omnidraft.runtime.traces.trace_payload import (
    decode_round,
    decode_start,
    demand,
    encode_round,
    encode_start,
)

MAGIC = b"\x89ODT\r\n\x1a\n"
VERSION = 2
MAX_VOCABULARY = 1 << 31
MAX_SEGMENT_BYTES = 1 << 22  # no segment is larger; a larger file is not read: it may hold 150,000 tokens
# magic, version, widths of drafter and target, reserved, their fingerprints, number of the segment
_HEADER = struct.Struct("<8s4I32s32sQ")
HEADER_BYTES = _HEADER.size + 4  # with its CRC-32
_FRAME = struct.Struct("<IHHI")  # bytes of the payload, kind, reserved, number of the record
FRAME_BYTES = _FRAME.size + 4  # of a frame without its payload: the fields before it, the CRC-32 after it
START, ROUND = 1, 2  # kinds of frames


@dataclass(frozen=True)
class TraceHeader:
    """The header of a segment: the pair of vocabularies, and the number of the segment in its store."""

    vocabularies: Vocabularies
    number: int


@dataclass(frozen=True)
class Frame:
    """One entry: the beginning of a record, or a round of it; records have numbers 0, 1, ... in a segment."""

    record: int
    content: Start | TracedRound


@dataclass(frozen=True)
class Segment:
    """A file of a trace.

    Attributes:
        torn: bytes at the end that were left out, of a write that did not finish.
    """

    header: TraceHeader
    frames: tuple[Frame, ...]
    torn: int = 0

    def generations(self) -> list[Traced]:
        """The records in the order in which they began, without those that have no round."""
        starts = {f.record: f.content for f in self.frames if isinstance(f.content, Start)}
        rounds: dict[int, list[TracedRound]] = {record: [] for record in starts}
        for frame in self.frames:
            if isinstance(frame.content, TracedRound):
                rounds[frame.record].append(frame.content)
        return [Traced(start, tuple(rounds[n])) for n, start in starts.items() if rounds[n]]


def encode_header(header: TraceHeader) -> bytes:
    """The first 100 bytes of a segment."""
    v = header.vocabularies
    data = _HEADER.pack(
        MAGIC, VERSION, v.draft_size, v.target_size, 0,
        bytes.fromhex(v.draft_fingerprint), bytes.fromhex(v.target_fingerprint), header.number,
    )  # fmt: skip
    return data + struct.pack("<I", zlib.crc32(data))


def encode_frame(frame: Frame, vocabularies: Vocabularies) -> bytes:
    """The bytes of one entry: equal entries give equal bytes."""
    if isinstance(frame.content, Start):
        kind, payload = START, encode_start(frame.content, vocabularies)
    else:
        kind, payload = ROUND, encode_round(frame.content, vocabularies)
    data = _FRAME.pack(len(payload), kind, 0, frame.record) + payload
    return data + struct.pack("<I", zlib.crc32(data))


def encode(segment: Segment) -> bytes:
    """The bytes of a segment without torn bytes: equal segments give equal bytes."""
    v = segment.header.vocabularies
    return b"".join([encode_header(segment.header), *(encode_frame(f, v) for f in segment.frames)])


def decode_header(data: bytes) -> TraceHeader:
    """The header of a file of at least these bytes.

    Raises:
        TraceFileError: with the name of the first fault, in the order of spec/12-trace.md.
    """
    demand(data[:8] == MAGIC, "not_a_trace", "it is not a trace")
    demand(len(data) >= 12, "truncated", _cut(data))
    version = int.from_bytes(data[8:12], "little")
    demand(version == VERSION, "version", f"it has format version {version}, this omnidraft reads {VERSION}")
    demand(len(data) >= HEADER_BYTES, "truncated", _cut(data))
    checksum = int.from_bytes(data[_HEADER.size : HEADER_BYTES], "little")
    demand(zlib.crc32(data[: _HEADER.size]) == checksum, "checksum", "its header is damaged")
    _, _, draft_size, target_size, reserved, draft, target, number = _HEADER.unpack_from(data)
    demand(reserved == 0, "reserved", f"its reserved field is {reserved}, not 0")
    for name, size in (("drafter", draft_size), ("target", target_size)):
        demand(0 < size <= MAX_VOCABULARY, "limits", f"its {name} has {size} ids, not 1 to 2^31")
    return TraceHeader(Vocabularies(draft.hex(), target.hex(), draft_size, target_size), number)


def decode(data: bytes) -> Segment:
    """The segment in a file's bytes."""
    header = decode_header(data)
    ends, torn = scan(data)
    frames = [_frame(data[a:b], header.vocabularies) for a, b in pairwise(ends)]
    _check_records(frames)
    return Segment(header, tuple(frames), torn)


def scan(data: bytes) -> tuple[list[int], int]:
    """The ends of the whole frames of a segment, the header's end first, and the number of torn bytes.

    A frame that is not whole is torn if no whole frame follows it; else the file was damaged later.
    """
    ends = [HEADER_BYTES]
    while ends[-1] < len(data):
        at = ends[-1]
        end = _end(data, at)
        if end is not None and _is_whole(data, at, end):
            ends.append(end)
            continue
        after = None if end is None else _end(data, end)
        follows = end is not None and after is not None and _is_whole(data, end, after)
        demand(not follows, "checksum", f"its entry at byte {at} is damaged")
        break
    return ends, len(data) - ends[-1]


def _end(data: bytes, at: int) -> int | None:
    """The end of the frame at an offset by its length; None if that is outside the file."""
    if at + FRAME_BYTES > len(data):
        return None
    end = at + FRAME_BYTES + int.from_bytes(data[at : at + 4], "little")
    return end if end <= len(data) else None


def _is_whole(data: bytes, at: int, end: int) -> bool:
    return zlib.crc32(data[at : end - 4]) == int.from_bytes(data[end - 4 : end], "little")


def _frame(data: bytes, vocabularies: Vocabularies) -> Frame:
    _, kind, reserved, record = _FRAME.unpack_from(data)
    demand(reserved == 0, "reserved", f"the reserved field of an entry is {reserved}, not 0")
    demand(kind in (START, ROUND), "kind", f"it has an entry of kind {kind}, neither {START} nor {ROUND}")
    payload = data[_FRAME.size : -4]
    content: Start | TracedRound
    content = decode_start(payload, vocabularies) if kind == START else decode_round(payload, vocabularies)
    return Frame(record, content)


def _check_records(frames: list[Frame]) -> None:
    begun = 0
    for frame in frames:
        record = frame.record
        if isinstance(frame.content, Start):
            demand(record == begun, "order", f"its record {record} begins after {begun} others")
            begun += 1
        demand(record < begun, "order", f"it has a round of record {record}, which has not begun")


def _cut(data: bytes) -> str:
    return f"it is cut short: {len(data)} bytes of at least {HEADER_BYTES}"
