"""The cache in memory: what it learns, what it evicts, what it takes; the trie follows every change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.decision import root_masses
from omnidraft.runtime.decoding.sampling import SamplingConfig, target_distribution
from omnidraft.runtime.decoding.translator import translate
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.ngram_cache import Entry, NgramCache
from omnidraft.runtime.vocab.trie import ActiveTrie
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.tables import GRAM_IDS, TOY, table
from support.toy import TARGET, ragged

FLAKE, FO, FLAS, LAKE = (TARGET.index(name) for name in ("FLAKE", "FO", "FLAS", "LAKE"))
S = TARGET.index("S")  # a direct pair, never an entry


def wide_map(count: int) -> VocabMap:
    """A target of `count` n-grams of two draft tokens each, all different, over 256 draft tokens."""
    spellings = [[i % 256, i // 256] for i in range(count)]
    order = sorted(range(count), key=spellings.__getitem__)
    return VocabMap(
        target_bytes=ragged([[0]] * count, np.uint8),
        direct=np.full(256, -1, dtype=np.int32),
        spellings=ragged(spellings),
        expansions=ragged([[]] * 256),
        leaves=np.array(order, dtype=np.int32),
        draft_allowed=np.ones(256, dtype=np.bool_),
        draft_fingerprint="d" * 64,
        target_fingerprint="e" * 64,
    )


def ids(cache: NgramCache) -> list[int]:
    return [entry.target_id for entry in cache.entries()]


def assert_trie_follows(cache: NgramCache) -> None:
    """The trie is the one that is built from the same entries."""
    fresh = ActiveTrie(cache.map)
    for entry in cache.entries():
        fresh.activate(int(cache.map.leaf_of[entry.target_id]))
    assert (cache.trie.active == fresh.active).all()
    assert (cache.trie.root_mask == fresh.root_mask).all()
    assert cache.trie.grams.tolist() == fresh.grams.tolist() == ids(cache)
    spelled, expected = (sorted(np.concatenate(trie.spelled()).tolist()) for trie in (cache.trie, fresh))
    assert spelled == expected
    distribution = target_distribution(np.linspace(-1.0, 1.0, cache.map.target_size), SamplingConfig(1.0))
    assert root_masses(cache.trie, distribution) == pytest.approx(root_masses(fresh, distribution))


def proposed(cache: NgramCache, spelling: list[int]) -> list[int]:
    """The target tokens that a draft is translated to, before any probability is asked."""
    return translate(spelling, cache.trie, max_tokens=9).tokens


def test_an_eviction_leaves_other_n_grams_of_its_first_token_proposed() -> None:
    """5 and 261 begin with the same draft token, of which no direct pair is; 7 evicts one of the two."""
    cache = NgramCache(WIDE, capacity=2)
    for emitted in ([5], [261, 261], [7]):
        cache.learn(emitted, 0)
    assert ids(cache) == [7, 261]
    assert proposed(cache, [*WIDE.spell(261), *WIDE.spell(7)]) == [261, 7]
    assert proposed(cache, WIDE.spell(5)) == []


def test_n_grams_that_come_in_together_are_proposed() -> None:
    """By a prefill, or from a file: none of their first draft tokens was a root before."""
    cache = NgramCache(WIDE)
    assert proposed(cache, WIDE.spell(261)) == []
    cache.prefill()
    for filled in (cache, NgramCache.of_table(cache.table(), WIDE)):
        assert [proposed(filled, WIDE.spell(token)) for token in range(300)] == [[t] for t in range(300)]


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.integers(0, 299), min_size=1, max_size=6), max_size=60),
    st.integers(1, 40),
)
def test_any_history_against_a_dictionary(history: list[list[int]], capacity: int) -> None:
    """The arrays do what a dictionary of [hits, accepted, tick] and the rules of the spec do."""
    cache = NgramCache(WIDE, capacity=capacity)
    known: dict[int, list[int]] = {}
    for tick, emitted in enumerate(history, start=1):
        for i, token in enumerate(emitted):
            if token not in known:
                if len(known) == capacity:
                    del known[min(known, key=lambda t: (known[t][0], known[t][2], t))]
                known[token] = [0, 0, 0]
            known[token] = [known[token][0] + 1, known[token][1] + (i < 2), tick]
        cache.learn(emitted, 2)
    assert cache.entries() == [Entry(t, *known[t]) for t in sorted(known)]
    assert_trie_follows(cache)


WIDE = wide_map(300)


def test_a_prefilled_n_gram_is_of_the_round_that_inserted_it() -> None:
    cache = NgramCache(TOY)
    cache.learn([FO, FO], 1)
    cache.learn([S], 0)
    cache.prefill()
    assert [entry.tick for entry in cache.entries()] == [1 if t == FO else 2 for t in GRAM_IDS]


def test_a_spelling_of_more_than_255_pieces_is_not_cached() -> None:
    for length, cached in ((255, True), (256, False)):
        base = wide_map(1)
        vocab_map = VocabMap(**{**base.__dict__, "spellings": ragged([[0] * length])})
        cache = NgramCache(vocab_map)
        assert cache.insert(0) == cached
        assert NgramCache(vocab_map).prefill() == cached


def test_a_table_does_not_change_with_the_cache() -> None:
    cache = NgramCache.of_table(table([FO], [(5, 2)]), TOY)
    before = cache.table()
    cache.learn([FO], 1)
    assert (before.hits.tolist(), before.accepted.tolist()) == ([5], [2])
    assert (cache.table().hits.tolist(), cache.table().accepted.tolist()) == ([6], [3])


@settings(max_examples=50)
@given(st.lists(st.lists(st.sampled_from([*GRAM_IDS, S]), max_size=5), max_size=12), st.integers(1, 4))
def test_saved_and_loaded_it_goes_on_as_if_nothing_had_happened(
    history: list[list[int]], capacity: int
) -> None:
    one = NgramCache(TOY, capacity=capacity)
    other = NgramCache(TOY, capacity=capacity)
    for emitted in history:
        one.learn(emitted, 2)
        other.learn(emitted, 2)
        other = NgramCache.of_table(other.table(), TOY, capacity=capacity)
        assert one.entries() == other.entries()
        assert encode(one.table()) == encode(other.table())
        assert_trie_follows(other)


def test_a_cache_without_room_is_refused() -> None:
    with pytest.raises(SettingError, match="capacity 0 is less than 1"):
        NgramCache(TOY, capacity=0)


def test_memory_at_20_000_entries_of_a_wide_target() -> None:
    """Every array of the cache and its trie, grown one entry at a time, with the room left over."""
    width, entries = 151_936, 20_000
    vocab_map = wide_map(1 << 16)
    # As many leaves and draft tokens as Llama-2 and Qwen2 have.
    leaves = np.arange(width, dtype=np.int32)
    wide = VocabMap(
        target_bytes=ragged([[]] * width, np.uint8),
        direct=np.full(32_000, -1, dtype=np.int32),
        spellings=ragged([[i >> 8, i & 255, 0] for i in range(width)]),
        expansions=ragged([[]] * 32_000),
        leaves=leaves,
        draft_allowed=np.ones(32_000, dtype=np.bool_),
        draft_fingerprint=vocab_map.draft_fingerprint,
        target_fingerprint=vocab_map.target_fingerprint,
    )
    cache = NgramCache(wide)
    for token in range(0, 7 * entries, 7):
        cache.learn([token], 1)
    assert len(cache) == entries
    arrays = [v for o in (cache, cache.trie) for v in vars(o).values() if isinstance(v, np.ndarray)]
    shared = [id(a) for a in wide.direct_pairs]
    assert sum(a.nbytes for a in arrays if id(a) not in shared) / entries <= 64
    assert len(encode(cache.table())) / entries <= 24
