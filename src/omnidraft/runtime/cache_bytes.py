"""An n-gram cache as bytes inside a session file.

Stands in for `cache_file` until the two meet: uint32 little-endian tick and count, then target id, hits,
accepted and tick of each entry.
"""

import numpy as np

from omnidraft.errors import SessionFileError
from omnidraft.runtime.ngram_cache import NgramCache
from omnidraft.runtime.vocab_map import VocabMap


def pack_cache(cache: NgramCache) -> bytes:
    """The bytes of a cache."""
    rows = [n for e in cache.entries() for n in (e.target_id, e.hits, e.accepted, e.tick)]
    return np.array([cache.tick, len(cache), *rows], dtype="<u4").tobytes()


def unpack_cache(data: bytes, vocab_map: VocabMap) -> NgramCache:
    """The cache in some bytes.

    Raises:
        SessionFileError: they are no cache of this vocabulary map.
    """
    numbers = np.frombuffer(data, dtype="<u4") if len(data) % 4 == 0 else np.zeros(0, dtype="<u4")
    if len(numbers) < 2 or len(numbers) != 2 + 4 * int(numbers[1]):
        raise SessionFileError("cache", f"its n-gram cache of {len(data)} bytes has a length that cannot be")
    cache = NgramCache(vocab_map)
    for target_id, *counts in numbers[2:].reshape(-1, 4).tolist():
        if target_id >= vocab_map.target_size or not cache.insert(target_id):
            raise SessionFileError(
                "cache", f"its n-gram cache holds target id {target_id}, which is no n-gram"
            )
        cache._counts[cache._slots[target_id]] = counts
    cache.tick = int(numbers[0])
    return cache
