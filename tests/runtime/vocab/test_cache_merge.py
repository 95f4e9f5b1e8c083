"""Merging caches: in any order and as often as one likes, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.cache_file import decode, encode
from omnidraft.runtime.vocab.cache_table import MAX_REPLICAS, CacheTable, check_against, merge
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
    # `both` may have no writer where `a` has one; a cache without a writer takes that from every merge.
    assert encode(merge(both, a)) == encode(merge(both, merge(a, both)))


@given(tables(), tables())
def test_a_merged_table_is_canonical_and_has_all_entries(a: CacheTable, b: CacheTable) -> None:
    both = merge(a, b)
    assert encode(decode(encode(both))) == encode(both)
    check_against(both, TOY)
    assert set(both.targets.tolist()) == {*a.targets.tolist(), *b.targets.tolist()}


def test_counts_of_two_devices_add_up_and_those_of_one_do_not() -> None:
    a = table([FLAKE, FO], {1: [(5, 2), (1, 0)]}, [4, 2], tick=4)
    later = table([FLAKE], {1: [(6, 2)]}, [8], tick=8)
    b = table([FO], {2: [(7, 7)]}, [1], tick=3, writer=2)
    found = merge(merge(a, b), later)
    assert found.hits.tolist() == [6, 8]
    assert found.accepted.tolist() == [2, 7]
    assert found.ticks.tolist() == [8, 2]
    assert (found.tick, found.writer, found.replicas) == (8, 0, (1, 2))


def test_the_newest_replicas_stay() -> None:
    many = [table([FO], {r: [(r, 0)]}, writer=r) for r in range(1, MAX_REPLICAS + 4)]
    found = many[0]
    for one in many[1:]:
        found = merge(one, found)
    assert found.replicas == tuple(range(4, MAX_REPLICAS + 4))
    assert found.hits.tolist() == [sum(range(4, MAX_REPLICAS + 4))]


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
