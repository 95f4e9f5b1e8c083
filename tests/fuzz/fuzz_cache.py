"""Mutated cache files: each is refused by name, or is a valid cache that is written again byte for byte.

    PYTHONPATH=tests python -m fuzz.fuzz_cache [--count 100000] [--seconds 240] [--seed 0]

Two thirds of the mutants are sealed again with right checksums and section lengths, so that they reach the
checks after the checksums.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from fuzz.command import command, numbers
from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.cache_file import HEADER_BYTES, decode, encode
from omnidraft.runtime.vocab.cache_table import check_against, merge
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from support.tables import TOY, random_table

_TABLE = 92  # byte at which the header's lengths and checksums begin
_EDGES = (0, 1, 2, 3, 4, 9, 16, 17, 127, 128, 255, 256, 65_535, 65_536, 2**23, 2**31 - 1, 2**31, 2**32 - 1)
Rng = np.random.Generator
Mutate = Callable[[bytearray, Rng], None]


def flip(data: bytearray, rng: Rng) -> None:
    if data:
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))


def overwrite(data: bytearray, rng: Rng) -> None:
    """An edge value somewhere, as a number of 1, 2 or 4 bytes."""
    width = int(rng.choice([1, 2, 4]))
    if len(data) >= width:
        at = int(rng.integers(len(data) - width + 1))
        data[at : at + width] = (int(rng.choice(_EDGES)) % (1 << 8 * width)).to_bytes(width, "little")


def cut(data: bytearray, rng: Rng) -> None:
    del data[int(rng.integers(len(data) + 1)) :]


def remove(data: bytearray, rng: Rng) -> None:
    at = int(rng.integers(len(data) + 1))
    del data[at : at + int(rng.integers(1, 9))]


def insert(data: bytearray, rng: Rng) -> None:
    at = int(rng.integers(len(data) + 1))
    data[at:at] = rng.bytes(int(rng.integers(1, 9)))


def repeat(data: bytearray, rng: Rng) -> None:
    a, b = sorted(int(i) for i in rng.integers(len(data) + 1, size=2))
    data[b:b] = data[a:b]


MUTATIONS: tuple[Mutate, ...] = (flip, flip, overwrite, overwrite, cut, remove, insert, repeat)


def changed(data: bytes, rng: Rng) -> bytes:
    """A file with one to three changes."""
    whole = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        MUTATIONS[rng.integers(len(MUTATIONS))](whole, rng)
    return bytes(whole)


def mutant(data: bytes, rng: Rng) -> bytes:
    """A file with one to three changes, sealed again or not."""
    if rng.random() < 1 / 3:
        return changed(data, rng)
    lengths = struct.unpack_from("<10I", data, _TABLE)[::2]
    ends = np.cumsum([HEADER_BYTES, *lengths]).tolist()
    parts = [bytearray(data[12:_TABLE])] + [bytearray(data[a:b]) for a, b in pairwise(ends)]
    for _ in range(rng.integers(1, 4)):
        part = int(rng.integers(len(parts)))
        # The header keeps its length: with another one, only the checksum would fail.
        (overwrite if part == 0 else MUTATIONS[rng.integers(len(MUTATIONS))])(parts[part], rng)
    return sealed(data[:12] + bytes(parts[0]), [bytes(p) for p in parts[1:]], right=rng.random() < 0.7)


def sealed(start: bytes, sections: list[bytes], right: bool) -> bytes:
    """A whole file with right checksums; with `right`, the count of entries also agrees with the lengths."""
    if right:
        start = start[:80] + struct.pack("<I", len(sections[1])) + start[84:]
    head = start + b"".join(struct.pack("<II", len(s), zlib.crc32(s)) for s in sections)
    return head + struct.pack("<I", zlib.crc32(head)) + b"".join(sections)


def fuzz(count: int, seconds: float, seed: int) -> Counter[str]:
    """Try that many mutants, or as many as the time allows, and count how each ended."""
    rng = np.random.default_rng(seed)
    seen: Counter[str] = Counter()
    for number in numbers(count, seconds):
        if number % 500 == 0:
            whole = random_table(rng)
            data = encode(whole)
        tried = mutant(data, rng)
        try:
            decoded = decode(tried)
            check_against(decoded, TOY)
        except CacheFileError as error:
            seen[error.fault] += 1
            continue
        seen["valid"] += 1
        assert encode(decoded) == tried, f"mutant {number} of seed {seed} is written in another way"
        cache = NgramCache.of_table(decoded, TOY, capacity=3)
        cache.learn([5, 6, 7, 9], 2)
        assert len(cache) <= 3
        assert encode(merge(decoded, whole)) == encode(merge(whole, decoded))
    return seen


if __name__ == "__main__":
    command(__doc__, "caches", 100_000, fuzz, seconds=240.0)
