"""Runners of `map/...`: files of vocabulary maps, good and bad, and fingerprints of vocabularies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.vectors import ROOT, Vector, map_of
from omnidraft.errors import VocabMapError
from omnidraft.runtime.vocab.tokenizer import Control, fingerprint
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
        _read(data, given.get("models"))
    assert refused.value.fault == vector["expect"]["fault"], str(refused.value)


def _read(data: bytes, models: dict[str, Any] | None) -> None:
    """Read a map, and compare it with the models of a bundle if there are any."""
    read = decode_vocab_map(data)
    if models is not None:
        read.check_fits(**models)


def run_fingerprint(vector: Vector) -> None:
    given = vector["input"]
    tokens = [None if token is None else bytes.fromhex(token) for token in given["tokens"]]
    controls = [Control(token_id, text, False, False) for token_id, text in given["controls"]]
    assert fingerprint(tokens, controls) == vector["expect"]["fingerprint"]
