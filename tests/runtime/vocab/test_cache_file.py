"""The file of a cache: one way to write a table, and one name for each way to spoil it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.cache_file import MAGIC, decode, encode
from omnidraft.runtime.vocab.cache_table import CacheTable, check_against
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.cache_files import build
from support.tables import GRAM_IDS, TOY, tables
from support.toy import TARGET

FLAKE, FO = TARGET.index("FLAKE"), TARGET.index("FO")


def fault(data: bytes, vocab_map: VocabMap | None = None) -> str:
    with pytest.raises(CacheFileError) as caught:
        check_against(decode(data), vocab_map or TOY)
    assert str(caught.value).startswith(("it ", "its "))
    return caught.value.fault


# One way to write


@given(tables())
def test_what_is_written_is_read(t: CacheTable) -> None:
    data = encode(t)
    decoded = decode(data)
    check_against(decoded, TOY)
    assert encode(decoded) == data
    assert decoded.hits.tolist() == t.hits.tolist() and decoded.accepted.tolist() == t.accepted.tolist()


# Refusals


def test_an_entry_of_an_alias_is_refused() -> None:
    """Its pieces are right, but it has no leaf, and the trie would activate another one."""
    alias = replace(TOY, leaves=TOY.leaves[TOY.leaves != GRAM_IDS[-1]])
    assert alias.spell(GRAM_IDS[-1]) == TOY.spell(GRAM_IDS[-1])
    assert fault(build(), alias) == "spelling"
    check_against(decode(build()), TOY)


def test_every_prefix_is_refused() -> None:
    data = build()
    for length in range(len(data)):
        assert fault(data[:length]) == ("not_a_cache" if length < len(MAGIC) else "truncated")


def test_every_flipped_bit_is_refused() -> None:
    data = build()
    for bit in range(8 * len(data)):
        spoiled = bytearray(data)
        spoiled[bit // 8] ^= 1 << bit % 8
        assert fault(bytes(spoiled)) in ("not_a_cache", "version", "checksum")
