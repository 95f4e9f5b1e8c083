"""Reads spec/vectors, and makes the objects that vectors describe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft.runtime.vocab.ngram_cache import CAPACITY, NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.toy import ragged

ROOT = Path(__file__).resolve().parents[2] / "spec/vectors"
Vector = dict[str, Any]


CLAIMED = ("core", "files", "learning", "publishing", "grammar")  # the levels that this runtime claims


def counts() -> dict[str, int]:
    """The number of vectors of each folder of the claimed levels, by the manifest."""
    manifest = json.loads((ROOT / "manifest.json").read_text(encoding="utf-8"))
    return {folder: count for level in CLAIMED for folder, count in manifest["levels"][level].items()}


def vectors_of(folder: str) -> Iterator[Vector]:
    """All vectors of a folder, in every list of objects that it holds."""
    for path in sorted((ROOT / folder).glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, list) and content and isinstance(content[0], dict):
            yield from content


@cache
def map_of(name: str) -> VocabMap:
    """A vocabulary map of spec/vectors/maps."""
    content = json.loads((ROOT / "maps" / f"{name}.json").read_text(encoding="utf-8"))
    return VocabMap(
        target_bytes=ragged([list(bytes.fromhex(b)) for b in content["target_bytes"]], np.uint8),
        direct=np.array(content["direct"], dtype=np.int32),
        spellings=ragged(content["spellings"]),
        expansions=ragged(content["expansions"]),
        leaves=np.array(content["leaves"], dtype=np.int32),
        draft_allowed=np.array(content["draft_allowed"], dtype=np.bool_),
        draft_fingerprint=content["draft_fingerprint"],
        target_fingerprint=content["target_fingerprint"],
    )


def cache_of(given: dict[str, Any]) -> NgramCache:
    """A cache with the active n-grams of a vector, which may have less room for them or be prefilled."""
    cache = NgramCache(map_of(given["map"]), capacity=given.get("capacity") or CAPACITY)
    for target_id in given["active"]:
        assert cache.insert(target_id), f"{target_id} is no n-gram"
    if given.get("prefilled"):
        cache.prefill()
    return cache


def close(actual: Any, expected: Any) -> bool:
    """Whether probabilities agree to 1e-12: the runtime computes in float64 if its rows are float64."""
    return bool(np.allclose(actual, expected, rtol=1e-12, atol=1e-12))
