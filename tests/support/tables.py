"""Cache tables for tests: of the toy language, by hand and at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from omnidraft.runtime.vocab.cache_table import MAX_REPLICAS, CacheTable, canonical, rows
from support.toy import GRAMS, TARGET, toy_map

TOY = toy_map()
GRAM_IDS = sorted(TARGET.index(gram) for gram in GRAMS)  # the toy language's n-grams, by target id
Counted = Mapping[int, Sequence[tuple[int, int]]]  # replica -> hits and accepted of each entry


def table(
    targets: Sequence[int] = GRAM_IDS,
    counted: Counted | None = None,
    ticks: Sequence[int] | None = None,
    *,
    tick: int = 9,
    writer: int = 1,
) -> CacheTable:
    """A canonical table of some of the toy language's n-grams."""
    counted = {1: [(i + 1, i) for i in range(len(targets))]} if counted is None else counted
    counts = [[[hits for hits, _ in c], [accepted for _, accepted in c]] for _, c in sorted(counted.items())]
    return canonical(
        CacheTable(
            TOY.draft_fingerprint, TOY.target_fingerprint, writer, tick,
            np.array(targets, dtype=np.int32), rows(TOY.spellings, np.array(targets, dtype=np.intp)),
            np.array(range(len(targets)) if ticks is None else ticks, dtype=np.uint32),
            tuple(sorted(counted)), np.array(counts, dtype=np.uint32).reshape(len(counted), 2, len(targets)),
        )
    )  # fmt: skip


def random_table(rng: np.random.Generator, most_replicas: int = MAX_REPLICAS) -> CacheTable:
    """Any canonical table of the toy language: few and many replicas, small and large numbers."""

    def numbers(*shape: int) -> npt.NDArray[np.int64]:
        return rng.integers(0, 4, shape) if rng.random() < 0.7 else rng.integers(0, 2**32, shape)

    targets = [t for t in GRAM_IDS if rng.random() < 0.6]
    # Few distinct ids, so that tables to be merged share replicas; many of them, so that the bound is met.
    replicas = [int(r) for r in rng.permutation(24)[: rng.integers(0, most_replicas + 1)] + 1]
    replicas += [int(r) for r in rng.integers(1, 2**64, rng.integers(0, 2), dtype=np.uint64)]
    counted = {
        r: [(int(max(p)), int(min(p))) for p in numbers(len(targets), 2)] for r in replicas[:most_replicas]
    }
    tick = int(numbers(1)[0])
    ticks = [int(t) for t in rng.integers(0, tick + 1, len(targets))]
    return table(targets, counted, ticks, tick=tick, writer=int(rng.choice([0, 1, 2, 77])))


def tables() -> st.SearchStrategy[CacheTable]:
    """Any table by its seed: drawn number by number they take hypothesis a minute."""
    return st.integers(0, 2**32).map(lambda seed: random_table(np.random.default_rng(seed)))
