"""The contents of an n-gram cache as a value: what a file holds, and what two devices merge.

Pure: no file, clock or random number. Rules and reasons: spec/ngram-cache.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.vocab_map import Ids, Ragged, VocabMap

MAX_REPLICAS = 16
MAX_PIECES = 255  # draft tokens in a cached n-gram, at most
MAX_COUNT = 2**32 - 1  # counts and ticks stop there

Counts = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class CacheTable:
    """The n-grams of one pair of vocabularies, by ascending target id, and who counted what.

    Attributes:
        draft_fingerprint, target_fingerprint: SHA-256 of the two tokenizers, 64 hexadecimal digits.
        writer: the replica that goes on counting, 0 where there is none yet.
        tick: rounds that were learned from, at most 2^32 - 1.
        targets: target ids, ascending and distinct, shape [n].
        spellings: the draft tokens of each entry, 2 to 255.
        ticks: the round in which each entry was last emitted, shape [n].
        replicas: ids of those who counted, ascending.
        counts: hits and accepted of each replica and entry, shape [replicas, 2, n].
    """

    draft_fingerprint: str
    target_fingerprint: str
    writer: int
    tick: int
    targets: Ids
    spellings: Ragged
    ticks: Counts
    replicas: tuple[int, ...]
    counts: Counts

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def hits(self) -> npt.NDArray[np.uint64]:
        """Times each entry was emitted, over all replicas, shape [n]."""
        return total(self.counts[:, 0])

    @property
    def accepted(self) -> npt.NDArray[np.uint64]:
        """Times each entry was proposed and accepted, over all replicas, shape [n]."""
        return total(self.counts[:, 1])

    def keep(self, chosen: npt.NDArray[np.intp]) -> "CacheTable":
        """The table of some entries, given by their ascending indices."""
        return canonical(
            CacheTable(
                self.draft_fingerprint, self.target_fingerprint, self.writer, self.tick,
                self.targets[chosen], rows(self.spellings, chosen), self.ticks[chosen],
                self.replicas, self.counts[:, :, chosen],
            )
        )  # fmt: skip


def total(counts: Counts) -> npt.NDArray[np.uint64]:
    """Sums over the replicas, shape [replicas, n] -> [n]; 64 bits, because each count may fill 32."""
    found: npt.NDArray[np.uint64] = counts.sum(axis=0, dtype=np.uint64)
    return found


def canonical(table: CacheTable) -> CacheTable:
    """The same table as a file holds it: the newest 16 of the replicas that counted anything.

    A replica's id grows with the time at which it began, so the highest ids are the newest.
    """
    counting = [r for r in range(len(table.replicas)) if table.counts[r].any()]
    kept = sorted(counting, key=lambda r: table.replicas[r])[-MAX_REPLICAS:]
    return CacheTable(
        table.draft_fingerprint, table.target_fingerprint, table.writer, table.tick,
        table.targets, table.spellings, table.ticks,
        tuple(table.replicas[r] for r in kept), table.counts[kept],
    )  # fmt: skip


def merge(a: CacheTable, b: CacheTable) -> CacheTable:
    """What two caches know together: all entries, and of every replica its larger counts.

    Commutative, associative, and idempotent. The result may exceed any bound; whoever uses it evicts.

    Raises:
        CacheFileError: `foreign_vocabulary`, or `spelling` where they write a target token differently.
    """
    prints = [(t.draft_fingerprint, t.target_fingerprint) for t in (a, b)]
    if prints[0] != prints[1]:
        raise CacheFileError(
            f"one cache is of drafter {prints[0][0][:12]} and target "
            f"{prints[0][1][:12]}, the other of {prints[1][0][:12]} and "
            f"{prints[1][1][:12]}",
            "merge caches of one pair of tokenizers",
            fault="foreign_vocabulary",
        )
    targets: Ids = np.union1d(a.targets, b.targets).astype(np.int32)
    replicas = tuple(sorted({*a.replicas, *b.replicas}))
    ticks = np.zeros(len(targets), dtype=np.uint32)
    counts = np.zeros((len(replicas), 2, len(targets)), dtype=np.uint32)
    for t in (a, b):
        at = np.searchsorted(targets, t.targets)
        ticks[at] = np.maximum(ticks[at], t.ticks)
        for r, replica in enumerate(t.replicas):
            mine = counts[replicas.index(replica)]
            mine[:, at] = np.maximum(mine[:, at], t.counts[r])
    return canonical(
        CacheTable(
            a.draft_fingerprint, a.target_fingerprint, a.writer if a.writer == b.writer else 0,
            max(a.tick, b.tick), targets, _merge_spellings(a, b, targets), ticks, replicas, counts,
        )
    )  # fmt: skip


def _merge_spellings(a: CacheTable, b: CacheTable, targets: Ids) -> Ragged:
    """Each spelling from where it is known."""
    common, in_a, in_b = np.intersect1d(a.targets, b.targets, return_indices=True)
    ours, theirs = rows(a.spellings, in_a), rows(b.spellings, in_b)
    if not same_rows(ours, theirs):
        wrong = next(i for i in range(len(common)) if ours.row(i).tolist() != theirs.row(i).tolist())
        raise CacheFileError(
            f"target token {common[wrong]} is {ours.row(wrong).tolist()} in one "
            f"cache and {theirs.row(wrong).tolist()} in the other",
            "one of them was not written by omnidraft",
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
    # Where each value comes from: the row's start, and how far the value is into its row.
    index = np.repeat(ragged.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Ragged(ragged.values[index].astype(np.int32), offsets)


def same_rows(a: Ragged, b: Ragged) -> bool:
    """Whether two ragged arrays hold the same rows."""
    return np.array_equal(a.offsets, b.offsets) and np.array_equal(a.values, b.values)


def eviction_order(
    policy: str, hits: npt.NDArray[np.uint64], ticks: Counts, targets: npt.NDArray[np.integer]
) -> npt.NDArray[np.intp]:
    """Indices of entries, the first to be evicted first.

    `lfu`: fewest hits, then longest unused. `lru`: longest unused, then fewest hits. Then the lowest id.
    """
    keys = (targets, ticks, hits) if policy == "lfu" else (targets, hits, ticks)
    return np.lexsort(keys)


def first_to_evict(
    policy: str, hits: npt.NDArray[np.uint64], ticks: Counts, targets: npt.NDArray[np.integer]
) -> int:
    """The head of `eviction_order`, without sorting. At least one entry; `targets` must ascend."""
    assert len(targets), "nothing to evict"
    first, second = (hits, ticks) if policy == "lfu" else (ticks, hits)
    among = np.flatnonzero(first == first.min())
    return int(among[np.argmin(second[among])])


def check_against(table: CacheTable, vocab_map: VocabMap) -> None:
    """Refuse a table that was not learned from these vocabularies.

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
