"""The contents of an n-gram cache as a value: what a file holds, and how two tables merge.

Pure: no file, clock or random number. Rules and reasons: spec/06-ngram-cache.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft import defaults
from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.vocab_map import Ids, Ragged, VocabMap

MAX_PIECES = defaults.CACHE_MAX_PIECES  # draft tokens in a cached n-gram, at most
MAX_COUNT = 2**32 - 1  # counts and ticks do not grow further

Counts = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class CacheTable:
    """The n-grams of one pair of vocabularies, by ascending target id.

    Attributes:
        draft_fingerprint, target_fingerprint: SHA-256 of the two tokenizers, 64 hexadecimal digits.
        tick: rounds learned from, at most 2^32 - 1.
        targets: target ids, ascending and distinct, shape [n].
        spellings: the draft tokens of each entry, 2 to 255.
        ticks: the round in which each entry was last emitted, shape [n].
        hits: times each entry was emitted, shape [n].
        accepted: times each entry was emitted because it was proposed, shape [n].
    """

    draft_fingerprint: str
    target_fingerprint: str
    tick: int
    targets: Ids
    spellings: Ragged
    ticks: Counts
    hits: Counts
    accepted: Counts

    def __len__(self) -> int:
        return len(self.targets)

    def keep(self, chosen: npt.NDArray[np.intp]) -> "CacheTable":
        """The table of some entries, given by their ascending indices."""
        return CacheTable(
            self.draft_fingerprint, self.target_fingerprint, self.tick,
            self.targets[chosen], rows(self.spellings, chosen),
            self.ticks[chosen], self.hits[chosen], self.accepted[chosen],
        )  # fmt: skip


def merge(a: CacheTable, b: CacheTable) -> CacheTable:
    """All entries of both tables, with the maximum of hits, of accepted and of tick of each entry.

    Commutative, associative and idempotent. The result may exceed any capacity; a session that loads the
    result evicts.

    Raises:
        CacheFileError: `foreign_vocabulary`, or `spelling` where they write a target token differently.
    """
    _check_same_pair(a, b)
    targets: Ids = np.union1d(a.targets, b.targets).astype(np.int32)
    columns = np.zeros((3, len(targets)), dtype=np.uint32)  # ticks, hits, accepted
    for table in (a, b):
        at = np.searchsorted(targets, table.targets)
        columns[:, at] = np.maximum(columns[:, at], [table.ticks, table.hits, table.accepted])
    return CacheTable(
        a.draft_fingerprint, a.target_fingerprint, max(a.tick, b.tick),
        targets, _merge_spellings(a, b, targets), *columns,
    )  # fmt: skip


def _check_same_pair(a: CacheTable, b: CacheTable) -> None:
    prints = [(t.draft_fingerprint, t.target_fingerprint) for t in (a, b)]
    if prints[0] != prints[1]:
        raise CacheFileError(
            f"one cache is of drafter {prints[0][0][:12]} and target "
            f"{prints[0][1][:12]}, the other of {prints[1][0][:12]} and "
            f"{prints[1][1][:12]}",
            "merge caches of one pair of tokenizers",
            fault="foreign_vocabulary",
        )


def _merge_spellings(a: CacheTable, b: CacheTable, targets: Ids) -> Ragged:
    """The spelling of each target token, from the table that has the token."""
    common, in_a, in_b = np.intersect1d(a.targets, b.targets, return_indices=True)
    ours, theirs = rows(a.spellings, in_a), rows(b.spellings, in_b)
    if not same_rows(ours, theirs):
        wrong = next(i for i in range(len(common)) if ours.row(i).tolist() != theirs.row(i).tolist())
        raise CacheFileError(
            f"target token {common[wrong]} is {ours.row(wrong).tolist()} in one "
            f"cache and {theirs.row(wrong).tolist()} in the other",
            "one of the caches was not written by omnidraft",
            fault="spelling",
        )
    both = Ragged(
        np.concatenate([a.spellings.values, b.spellings.values]),
        np.concatenate([a.spellings.offsets, b.spellings.offsets[1:] + a.spellings.offsets[-1]]),
    )
    from_b = len(a) + np.searchsorted(b.targets, targets)
    from_a = np.searchsorted(a.targets, targets)
    return rows(both, np.where(np.isin(targets, a.targets), from_a, from_b))


def rows(ragged: Ragged, chosen: npt.NDArray[np.integer]) -> Ragged:
    """Some rows of a ragged array."""
    lengths = ragged.lengths[chosen]
    offsets = np.zeros(len(chosen) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    # The index of each value: the start of its row, and its position in the row.
    index = np.repeat(ragged.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Ragged(ragged.values[index].astype(np.int32), offsets)


def same_rows(a: Ragged, b: Ragged) -> bool:
    """Whether two ragged arrays hold the same rows."""
    return np.array_equal(a.offsets, b.offsets) and np.array_equal(a.values, b.values)


def eviction_order(hits: Counts, ticks: Counts) -> npt.NDArray[np.intp]:
    """Indices of entries, the first to be evicted first: fewest hits, then lowest tick, then lowest index."""
    return np.lexsort((ticks, hits))


def first_to_evict(hits: Counts, ticks: Counts) -> int:
    """The first index of `eviction_order`, without sorting; there is at least one entry."""
    fewest = np.flatnonzero(hits == hits.min())
    return int(fewest[np.argmin(ticks[fewest])])


def check_against(table: CacheTable, vocab_map: VocabMap) -> None:
    """Refuse a table that was learned from other vocabularies.

    Raises:
        CacheFileError: `foreign_vocabulary`, `id_range` or `spelling`.
    """
    for who, theirs, ours in (
        ("drafter", table.draft_fingerprint, vocab_map.draft_fingerprint),
        ("target", table.target_fingerprint, vocab_map.target_fingerprint),
    ):
        if theirs != ours:
            raise CacheFileError(
                f"it is of another {who} tokenizer ({theirs[:12]}, this one is {ours[:12]})",
                fault="foreign_vocabulary",
            )
    _check_range("target", table.targets, vocab_map.target_size)
    _check_range("draft", table.spellings.values, vocab_map.draft_size)
    right = (vocab_map.leaf_of[table.targets] >= 0).all()
    if not right or not same_rows(rows(vocab_map.spellings, table.targets), table.spellings):
        raise CacheFileError(
            "it spells target tokens in another way than the vocabulary map", fault="spelling"
        )


def _check_range(which: str, ids: Sequence[int] | npt.NDArray[np.generic], size: int) -> None:
    largest = int(np.max(ids, initial=-1))
    if largest >= size:
        raise CacheFileError(f"it holds {which} id {largest}, outside 0..{size - 1}", fault="id_range")
