"""With a cache that evicts entries between rounds, the output still has the target's distribution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support import enumerate_distribution
from support.enumerate_distribution import Case, distribution_of_output, total_variation
from support.toy import TARGET


def test_generations_that_evict_have_the_targets_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for one n-gram: the second round's trie depends on the n-gram that the first round emitted."""
    kept: set[int] = set()

    class Watched(NgramCache):
        def learn(self, emitted: Iterable[int], num_accepted: int) -> int:
            new = super().learn(emitted, num_accepted)
            kept.update(entry.target_id for entry in self.entries())
            assert len(self) == 1
            return new

    def cache(vocab_map: VocabMap, grams: Sequence[str]) -> NgramCache:
        watched = Watched(vocab_map, capacity=1)
        assert [watched.insert(TARGET.index(gram)) for gram in grams] == [True]
        return watched

    monkeypatch.setattr(enumerate_distribution, "toy_cache", cache)
    case = Case("trie", seed=7, count=1, grams=("FO",), most=2, rounds=2)
    assert total_variation(distribution_of_output(case), case) < 1e-9
    assert len(kept) == 4  # in some branch, each n-gram of the language was the one entry
