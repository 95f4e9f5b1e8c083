"""Vocabulary maps of any size, and caches of their n-grams, with the statistics of real ones.

Of a target vocabulary up to 36 % have a draft token of equal bytes, and at most 26,000, as GPT-2 (18,207 of
50,257), Llama-3 and Qwen2 (26,599 and 26,342) have with Llama-2's 32,000 draft tokens (`omnidraft check`).
All others are written in 2 to 6 pieces, common pieces more often than rare ones.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import Ids, Ragged, VocabMap

DRAFT_SIZE = 32_000
DIRECT_SHARE, MOST_DIRECT = 0.36, 26_000
PIECES = {2: 0.55, 3: 0.27, 4: 0.12, 5: 0.04, 6: 0.02}  # of an n-gram, and the share of n-grams
COMMON = 3  # the weight of a piece is 1 / (rank + COMMON): the commonest begins 3 % of the n-grams
PIECE_BYTES = 3


def synthetic_map(target_size: int, draft_size: int = DRAFT_SIZE, seed: int = 0) -> VocabMap:
    """A map in which every target token can be spelled.

    Args:
        target_size: number of target tokens.
        draft_size: number of draft tokens.
        seed: another seed, other spellings.
    """
    random = np.random.default_rng(seed)
    num_direct = min(int(DIRECT_SHARE * target_size), MOST_DIRECT, draft_size * 4 // 5)
    direct = np.full(draft_size, -1, dtype=np.int32)
    drafts = random.permutation(draft_size)[:num_direct]
    direct[drafts] = np.arange(num_direct)
    pieces = np.full((target_size, max(PIECES)), -1, dtype=np.int32)
    pieces[:num_direct, 0] = drafts
    pieces[num_direct:] = _ngrams(target_size - num_direct, drafts, random)
    lengths = (pieces >= 0).sum(axis=1)
    allowed = np.zeros(draft_size, dtype=np.bool_)
    allowed[drafts] = True
    return VocabMap(
        target_bytes=_ragged(np.full(PIECE_BYTES * int(lengths.sum()), 120, np.uint8), PIECE_BYTES * lengths),
        direct=direct,
        spellings=_ragged(pieces[pieces >= 0], lengths),
        expansions=_ragged(np.empty(0, np.int32), np.zeros(draft_size, np.int64)),
        leaves=np.lexsort(pieces.T[::-1]).astype(np.int32),
        draft_allowed=allowed,
        draft_fingerprint=f"{draft_size:064x}",
        target_fingerprint=f"{target_size:064x}",
    )


def ngrams_of(vocab_map: VocabMap) -> Ids:
    """Target tokens of a map that the drafter writes in several pieces."""
    ngrams: Ids = vocab_map.leaves[vocab_map.leaf_lengths > 1]
    return ngrams


def full_cache(vocab_map: VocabMap) -> NgramCache:
    """A cache of every n-gram of a map."""
    cache = NgramCache(vocab_map)
    cache.prefill()
    return cache


def cache_of(vocab_map: VocabMap, tokens: Sequence[int], room: int = 0) -> NgramCache:
    """A cache of these tokens with room for some more; few of them were emitted often, most of them once."""
    table = full_cache(vocab_map).table()
    random, tick = np.random.default_rng(2), 4 * len(tokens)
    table = table.keep(np.searchsorted(table.targets, np.sort(np.array(tokens))))
    hits = random.zipf(2.0, len(tokens)).clip(max=tick).astype(np.uint32)
    ticks = random.integers(tick, size=len(tokens), dtype=np.uint32)
    table = replace(table, tick=tick, hits=hits, ticks=ticks, accepted=hits // 2)
    return NgramCache.of_table(table, vocab_map, capacity=len(tokens) + room)


def _ngrams(count: int, drafts: npt.NDArray[np.intp], random: np.random.Generator) -> Ids:
    """Distinct spellings in a random order, -1 behind their ends."""
    weights = 1.0 / (np.arange(len(drafts)) + COMMON)
    edges = np.cumsum(weights) / weights.sum()
    found = np.empty((0, max(PIECES)), dtype=np.int32)
    while len(found) < count:
        size = count - len(found) + count // 4 + 16
        drawn = drafts[np.searchsorted(edges, random.random((size, max(PIECES)))).clip(max=len(drafts) - 1)]
        lengths = random.choice(list(PIECES), size=size, p=list(PIECES.values()))
        drawn = np.where(np.arange(max(PIECES)) < lengths[:, None], drawn, -1).astype(np.int32)
        found = np.unique(np.concatenate([found, drawn]), axis=0)
    chosen: Ids = found[random.permutation(len(found))[:count]]
    return chosen


def _ragged(values: npt.NDArray[np.generic], lengths: npt.NDArray[np.integer]) -> Ragged:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return Ragged(values, offsets)
