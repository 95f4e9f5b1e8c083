"""Runners of `map/...`: files of vocabulary maps, good and bad, and fingerprints of vocabularies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conformance.vectors import ROOT, Vector, map_of
from omnidraft.errors import VocabMapError
from omnidraft.runtime.vocab.tokenizer import Control, Tokenizer
from omnidraft.runtime.vocab.vocab_map import decode_vocab_map, load_vocab_map


def run_valid(vector: Vector) -> None:
    read = load_vocab_map(ROOT / "map/valid" / vector["input"]["file"])
    expected = map_of(vector["expect"]["map"])
    assert read.metadata() == expected.metadata()
    for name, table in expected.tensors().items():
        assert np.array_equal(read.tensors()[name], table), name


def run_invalid(vector: Vector) -> None:
    given = vector["input"]
    path = ROOT / "map/invalid" / given.get("file", "")
    data = bytes.fromhex(given["bytes"]) if "bytes" in given else path.read_bytes()
    with pytest.raises(VocabMapError) as refused:
        decode_vocab_map(data)
    assert refused.value.fault == vector["expect"]["fault"], str(refused.value)


def run_fingerprint(vector: Vector) -> None:
    given = vector["input"]
    tokens = [None if token is None else bytes.fromhex(token) for token in given["tokens"]]
    controls = {text: Control(token_id, text, False, False) for token_id, text in given["controls"]}
    vocabulary: Any = SimpleNamespace(tokens=tokens, controls=controls)
    assert Tokenizer.fingerprint.func(vocabulary) == vector["expect"]["fingerprint"]
