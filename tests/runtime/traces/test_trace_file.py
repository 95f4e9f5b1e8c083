"""The file of a trace: one way to write it, and one name for each way to spoil it."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.errors import TraceFileError
from omnidraft.runtime.traces.trace_file import HEADER_BYTES, MAGIC, Segment, decode, encode
from support.trace_files import START, build, frame, random_segment


def fault(data: bytes) -> str:
    with pytest.raises(TraceFileError) as caught:
        decode(data)
    assert str(caught.value)[0].islower()
    return caught.value.fault


def test_what_is_written_is_read() -> None:
    for seed in range(60):
        segment = random_segment(np.random.default_rng(seed))
        data = encode(segment)
        decoded = decode(data)
        assert encode(decoded) == data and decoded.torn == 0
        assert sum(len(g.rounds) for g in decoded.generations()) > 0


def test_a_torn_tail_loses_the_last_entry_only() -> None:
    """Wherever a write was cut off, the entries before it are read."""
    segment = random_segment(np.random.default_rng(1))
    ends = [HEADER_BYTES]
    for i in range(len(segment.frames)):
        ends.append(len(encode(Segment(segment.header, segment.frames[: i + 1]))))
    data = encode(segment)
    for length in range(HEADER_BYTES, len(data)):
        decoded = decode(data[:length])
        whole = max(end for end in ends if end <= length)
        assert encode(decoded) == data[:whole]
        assert decoded.torn == length - whole
        # Zeros, as some file systems leave them after a power cut.
        padded = encode(decode(data[:length] + bytes(len(data) - length)))
        assert data.startswith(padded) and len(padded) >= whole


def test_every_prefix_of_the_header_is_refused() -> None:
    for length in range(HEADER_BYTES):
        assert fault(build()[:length]) == ("not_a_trace" if length < len(MAGIC) else "truncated")


def test_every_flipped_bit_is_refused_or_the_tail_is_left_out() -> None:
    data = build()
    second = HEADER_BYTES + len(frame(START, 1))
    for bit in range(8 * len(data)):
        spoiled = bytearray(data)
        spoiled[bit // 8] ^= 1 << bit % 8
        if bit // 8 < HEADER_BYTES:
            assert fault(bytes(spoiled)) in ("not_a_trace", "version", "checksum")
        elif HEADER_BYTES + 4 <= bit // 8 < second:  # a round follows, so this was no broken write
            assert fault(bytes(spoiled)) == "checksum"
        else:
            decoded = decode(bytes(spoiled))
            assert decoded.torn == len(data) - (HEADER_BYTES if bit // 8 < second else second)
