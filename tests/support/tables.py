"""Cache tables for tests: of the toy language, by hand and at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.vocab.cache_table import CacheTable, rows
from support.toy import GRAMS, TARGET, toy_map

TOY = toy_map()
GRAM_IDS = sorted(TARGET.index(gram) for gram in GRAMS)  # the toy language's n-grams, by target id


def table(
    targets: Sequence[int] = GRAM_IDS,
    counts: Sequence[tuple[int, int]] | None = None,
    ticks: Sequence[int] | None = None,
    *,
    tick: int = 9,
) -> CacheTable:
    """A table of some of the toy language's n-grams.

    Args:
        targets: their target ids, ascending.
        counts: hits and accepted of each entry; (1, 0), (2, 1), ... when None.
        ticks: of each entry; 0, 1, ... when None.
        tick: of the cache.
    """
    counts = [(i + 1, i) for i in range(len(targets))] if counts is None else counts
    hits, accepted = np.array(counts, dtype=np.uint32).reshape(len(targets), 2).T
    return CacheTable(
        TOY.draft_fingerprint, TOY.target_fingerprint, tick,
        np.array(targets, dtype=np.int32), rows(TOY.spellings, np.array(targets, dtype=np.intp)),
        np.array(range(len(targets)) if ticks is None else ticks, dtype=np.uint32), hits, accepted,
    )  # fmt: skip


def random_table(rng: np.random.Generator) -> CacheTable:
    """Any table of the toy language, with small and large numbers."""

    def numbers(*shape: int) -> npt.NDArray[np.int64]:
        return rng.integers(0, 4, shape) if rng.random() < 0.7 else rng.integers(0, 2**32, shape)

    targets = [t for t in GRAM_IDS if rng.random() < 0.6]
    counts = [(int(max(pair)), int(min(pair))) for pair in numbers(len(targets), 2)]
    tick = int(numbers(1)[0])
    ticks = [int(t) for t in rng.integers(0, tick + 1, len(targets))]
    return table(targets, counts, ticks, tick=tick)
