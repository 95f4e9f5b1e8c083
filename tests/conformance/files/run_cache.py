"""Runners of `cache/...`: good and bad files, merging, learning and eviction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.vectors import ROOT, Vector, map_of
from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.cache_file import decode, encode
from omnidraft.runtime.vocab.cache_store import open_cache, read_table
from omnidraft.runtime.vocab.cache_table import CacheTable, merge
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap


def run_valid(vector: Vector) -> None:
    given = vector["input"]
    path = ROOT / "cache/valid" / given["file"]
    table = read_table(path, _map(given))
    assert _as_json(table) == vector["expect"]["table"]
    assert encode(table) == path.read_bytes(), "written again, the file is another one"
    if given["map"]:
        cache, problem = open_cache(path, map_of(given["map"]))
        assert (problem, len(cache)) == (None, len(table))
        assert encode(cache.table()) == path.read_bytes(), "loaded and saved, the file is another one"


def run_load(vector: Vector) -> None:
    given = vector["input"]
    path = ROOT / "cache/load" / given["file"]
    cache, problem = open_cache(path, map_of(given["map"]), capacity=given["capacity"])
    assert problem is None
    if given.get("prefilled"):
        cache.prefill()
    for each in given.get("rounds", []):
        cache.learn(each["emitted"], each["accepted"])
    assert [entry.target_id for entry in cache.entries()] == vector["expect"]["targets"]
    if "entries" in vector["expect"]:
        assert [vars(entry) for entry in cache.entries()] == vector["expect"]["entries"]


def run_invalid(vector: Vector) -> None:
    given = vector["input"]
    path, fault = ROOT / "cache/invalid" / given["file"], vector["expect"]["fault"]
    with pytest.raises(CacheFileError) as refused:
        read_table(path, _map(given))
    assert refused.value.fault == fault
    # A session continues with an empty cache and says so.
    cache, problem = open_cache(path, map_of(given["map"] or "toy"))
    assert len(cache) == 0
    assert problem is not None and problem.startswith("starting with an empty cache")


def run_merge(vector: Vector) -> None:
    given = vector["input"]
    a, b = (decode((ROOT / "cache/merge" / given[k]).read_bytes()) for k in ("a", "b"))
    assert encode(merge(a, b)) == (ROOT / "cache/merge" / vector["expect"]["file"]).read_bytes()


def run_learn(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    cache = NgramCache(map_of(given["map"]), capacity=given["capacity"])
    if given["start"] is not None:
        cache, problem = open_cache(
            ROOT / "cache/learn" / given["start"], map_of(given["map"]), capacity=given["capacity"]
        )
        assert problem is None
    new = [cache.learn(each["emitted"], each["accepted"]) for each in given["rounds"]]
    assert new == expect["new"]
    assert [vars(entry) for entry in cache.entries()] == expect["entries"]


def _map(given: dict[str, Any]) -> VocabMap | None:
    return map_of(given["map"]) if given["map"] else None


def _as_json(table: CacheTable) -> dict[str, Any]:
    return {
        "draft_fingerprint": table.draft_fingerprint,
        "target_fingerprint": table.target_fingerprint,
        "tick": table.tick,
        "entries": [
            {
                "target_id": int(t),
                "spelling": np.asarray(table.spellings.row(i)).tolist(),
                "hits": int(table.hits[i]),
                "accepted": int(table.accepted[i]),
                "tick": int(table.ticks[i]),
            }
            for i, t in enumerate(table.targets)
        ],
    }
