"""Merging caches: the same bytes in any order, in any grouping, and when repeated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.cache_file import decode, encode
from omnidraft.runtime.vocab.cache_table import CacheTable, check_against, eviction_order, merge
from omnidraft.runtime.vocab.vocab_map import Ragged
from support.cache_files import build
from support.tables import TOY, table, tables
from support.toy import TARGET

FLAKE, FO = TARGET.index("FLAKE"), TARGET.index("FO")


@given(tables(), tables())
def test_merging_is_commutative(a: CacheTable, b: CacheTable) -> None:
    assert encode(merge(a, b)) == encode(merge(b, a))


@given(tables(), tables(), tables())
def test_merging_is_associative(a: CacheTable, b: CacheTable, c: CacheTable) -> None:
    assert encode(merge(merge(a, b), c)) == encode(merge(a, merge(b, c)))


@given(tables(), tables())
def test_merging_is_idempotent_and_absorbs_what_it_has(a: CacheTable, b: CacheTable) -> None:
    assert encode(merge(a, a)) == encode(a)
    both = merge(a, b)
    assert encode(merge(both, both)) == encode(both)
    assert encode(merge(both, a)) == encode(merge(a, both))
    assert encode(merge(both, a)) == encode(merge(both, b)) == encode(both)


@given(tables(), tables())
def test_a_merged_table_is_a_whole_file_and_has_all_entries(a: CacheTable, b: CacheTable) -> None:
    both = merge(a, b)
    assert encode(decode(encode(both))) == encode(both)
    check_against(both, TOY)
    assert set(both.targets.tolist()) == {*a.targets.tolist(), *b.targets.tolist()}


@given(tables(), tables())
def test_of_each_entry_the_largest_numbers_stay(a: CacheTable, b: CacheTable) -> None:
    both = merge(a, b)
    assert both.tick == max(a.tick, b.tick)
    for name in ("ticks", "hits", "accepted"):
        own, theirs, merged = (
            dict(zip(t.targets.tolist(), getattr(t, name).tolist(), strict=True)) for t in (a, b, both)
        )
        assert merged == {t: max(own.get(t, 0), theirs.get(t, 0)) for t in merged}, name


def test_counts_of_two_devices_do_not_add_up() -> None:
    a = table([FLAKE, FO], [(5, 2), (1, 0)], [4, 2], tick=4)
    later = table([FLAKE], [(6, 2)], [8], tick=8)
    b = table([FO], [(7, 7)], [1], tick=3)
    merged = merge(merge(a, b), later)
    assert merged.hits.tolist() == [6, 7]
    assert merged.accepted.tolist() == [2, 7]
    assert merged.ticks.tolist() == [8, 2]
    assert merged.tick == 8


def test_who_evicts_between_merges_decides_what_is_left() -> None:
    """spec/06-ngram-cache.md, Merging: only merging first and evicting once gives equal bytes."""

    def cut(t: CacheTable) -> CacheTable:
        return t.keep(np.sort(eviction_order("lfu", t.hits, t.ticks, t.targets)[len(t) - 1 :]))

    a, b = table([FLAKE], [(5, 0)], [1]), table([FO], [(3, 0)], [1])
    c = table([FO], [(9, 9)], [2])
    assert cut(merge(cut(merge(a, b)), c)).targets.tolist() == [FO]
    assert encode(cut(merge(merge(a, b), c))) == encode(cut(merge(a, merge(b, c))))
    assert len(merge(cut(merge(a, b)), b)) == 2  # the evicted entry comes back from a file that has it


def test_caches_of_different_pairs_do_not_merge() -> None:
    foreign = decode(build(prints="d" * 64 + "f" * 64))
    with pytest.raises(CacheFileError, match="of one pair of tokenizers") as caught:
        merge(table(), foreign)
    assert caught.value.fault == "foreign_vocabulary"


def test_caches_that_spell_differently_do_not_merge() -> None:
    a = table([FO])
    b = CacheTable(**{**a.__dict__, "spellings": Ragged(np.array([1, 5], np.int32), a.spellings.offsets)})
    for pair in ((a, b), (b, a)):
        with pytest.raises(CacheFileError, match=f"target token {FO} is") as caught:
            merge(*pair)
        assert caught.value.fault == "spelling"
