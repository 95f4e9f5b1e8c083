"""Merging caches: the same bytes in any order, in any grouping, and when repeated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.cache_file import decode, encode
from omnidraft.runtime.vocab.cache_table import CacheTable, check_against, merge
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
