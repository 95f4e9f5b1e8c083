"""Mutated traces: each is refused by name, or is a trace whose whole entries are written again byte for byte.

    PYTHONPATH=tests python -m fuzz.fuzz_trace [--count 20000] [--seconds 120] [--seed 0]

Two thirds of the mutants are changed inside an entry and sealed again, so that they reach the checks after
the checksums.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from itertools import pairwise

import numpy as np

from fuzz.command import command, numbers
from fuzz.fuzz_cache import MUTATIONS, changed, overwrite
from omnidraft.errors import TraceFileError
from omnidraft.runtime.traces.trace_file import HEADER_BYTES, decode, encode, scan
from support.trace_files import TOY, random_segment

Rng = np.random.Generator


def mutant(data: bytes, rng: Rng) -> bytes:
    """A file with one to three changes, sealed again or not."""
    if rng.random() < 1 / 3:
        return changed(data, rng)
    ends, _ = scan(data)
    head = bytearray(data[12 : HEADER_BYTES - 4])
    entries = [(bytearray(data[a + 4 : a + 12]), bytearray(data[a + 12 : b - 4])) for a, b in pairwise(ends)]
    for _ in range(rng.integers(1, 4)):
        which = rng.random()
        place = int(rng.integers(len(entries)))
        if which < 0.1:
            overwrite(head, rng)
        elif which < 0.2:
            overwrite(entries[place][0], rng)
        elif which < 0.3:
            entries.insert(int(rng.integers(len(entries) + 1)), entries[place])
        elif which < 0.4 and len(entries) > 1:
            del entries[place]
        else:
            MUTATIONS[rng.integers(len(MUTATIONS))](entries[min(place, len(entries) - 1)][1], rng)
    return b"".join([_sealed(data[:12] + head), *(_entry(bytes(h), bytes(p)) for h, p in entries)])


def _entry(head: bytes, payload: bytes) -> bytes:
    return _sealed(struct.pack("<I", len(payload)) + head + payload)


def _sealed(data: bytes) -> bytes:
    return data + struct.pack("<I", zlib.crc32(data))


def fuzz(count: int, seconds: float, seed: int) -> Counter[str]:
    """Try that many mutants, or as many as the time allows, and count how each ended."""
    rng = np.random.default_rng(seed)
    seen: Counter[str] = Counter()
    for number in numbers(count, seconds):
        if number % 50 == 0:
            data = encode(random_segment(rng))
        tried = mutant(data, rng)
        try:
            segment = decode(tried)
            TOY.check(segment.header.vocabularies)
        except TraceFileError as error:
            seen[error.fault] += 1
            continue
        seen["torn" if segment.torn else "valid"] += 1
        written = encode(segment)
        assert written == tried[: len(tried) - segment.torn], (
            f"mutant {number} of seed {seed} is written in another way"
        )
        for traced in segment.generations():
            assert traced.tokens
    return seen


if __name__ == "__main__":
    command(__doc__, "traces", 20_000, fuzz)
