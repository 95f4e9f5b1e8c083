"""Runners of `tokenizer` and `tokenizer/invalid`: the files of compiled tokenizers."""

from __future__ import annotations

from functools import cache

import pytest

from conformance.vectors import ROOT, Vector
from omnidraft.errors import TokenizerError
from omnidraft.runtime.vocab.compiled_tokenizer import CompiledTokenizer
from omnidraft.runtime.vocab.tokenizer import fingerprint
from omnidraft.runtime.vocab.tokenizer_file import open_tokenizer_file


@cache
def _tokenizer(file: str) -> CompiledTokenizer:
    return CompiledTokenizer.from_file(ROOT / "tokenizer" / file)


def run_tokenizer(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    tokenizer = _tokenizer(given["file"])
    if "prefix" in given:
        parts = given["prefix"], given["text"], given["suffix"]
        assert tokenizer.encode_prompt(*parts, goes_on=given["goes_on"]) == expect["ids"]
    elif "text" in given:
        assert tokenizer.encode(given["text"]) == expect["ids"]
    elif "spell" in given:
        assert tokenizer.spell(bytes.fromhex(given["spell"])) == expect["ids"]
    else:
        assert [None if data is None else data.hex() for data in tokenizer.tokens] == expect["bytes"]
        computed = fingerprint(tokenizer.tokens, tokenizer.controls.values())
        assert computed == tokenizer.fingerprint == expect["fingerprint"]


def run_invalid_tokenizer(vector: Vector) -> None:
    with pytest.raises(TokenizerError) as refused:
        open_tokenizer_file(ROOT / "tokenizer/invalid" / vector["input"]["file"])
    assert refused.value.fault == vector["expect"]["fault"]
