"""The file of a cache: one way to write a table, and one name for each way to spoil it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given

from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.cache_file import MAGIC, decode, encode
from omnidraft.runtime.vocab.cache_table import CacheTable, check_against
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.cache_files import build
from support.places import ROOT
from support.tables import GRAM_IDS, TOY, tables
from support.toy import TARGET

SPEC = (ROOT / "spec/06-ngram-cache.md").read_text(encoding="utf-8")
FLAKE, FO = TARGET.index("FLAKE"), TARGET.index("FO")


def spec_example() -> bytes:
    lines = re.findall(r"^    ([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)$", SPEC, re.MULTILINE)
    data = b""
    for offset, digits in lines:
        assert int(offset, 16) == len(data)
        data += bytes.fromhex(digits)
    return data


def fault(data: bytes, vocab_map: VocabMap | None = None) -> str:
    with pytest.raises(CacheFileError) as caught:
        check_against(decode(data), vocab_map or TOY)
    assert str(caught.value).startswith(("it ", "its "))
    return caught.value.fault


# One way to write


def test_the_example_of_the_spec() -> None:
    data = spec_example()
    decoded = decode(data)
    assert (decoded.draft_fingerprint, decoded.target_fingerprint) == ("d" * 64, "e" * 64)
    assert decoded.tick == 9
    assert decoded.targets.tolist() == [5, 6]
    assert [decoded.spellings.row(i).tolist() for i in range(2)] == [[1, 2, 3], [1, 4]]
    assert decoded.ticks.tolist() == [7, 4]
    assert (decoded.hits.tolist(), decoded.accepted.tolist()) == ([3, 1], [2, 0])
    check_against(decoded, TOY)
    assert encode(decoded) == data


@given(tables())
def test_what_is_written_is_read(t: CacheTable) -> None:
    data = encode(t)
    decoded = decode(data)
    check_against(decoded, TOY)
    assert encode(decoded) == data
    assert decoded.hits.tolist() == t.hits.tolist() and decoded.accepted.tolist() == t.accepted.tolist()


# Refusals


def test_the_spec_names_the_faults_that_occur() -> None:
    named = set(re.findall(r"^\| (`[a-z_]+`(?:(?:, | or )`[a-z_]+`)*) \|", SPEC, re.MULTILINE))
    faults = {f for row in named for f in re.findall(r"`([a-z_]+)`", row)} - {"lfu", "lru"}
    vectors = json.loads((ROOT / "spec/vectors/cache/invalid/files.json").read_text(encoding="utf-8"))
    assert {vector["expect"]["fault"] for vector in vectors} | {"unreadable"} == faults


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
