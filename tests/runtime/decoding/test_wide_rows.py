"""Rows of the width of a real vocabulary: rounds allocate none."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.runtime.decoding import decision
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.modes import Verification
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.configs import config_of
from support.toy import ragged

DRAFT, PAIRS, TARGET = 32_768, 30_000, 98_304  # draft ids, direct pairs, target ids
UNSPELLED = 1_000  # the last target ids
WARM, MEASURED = 80, 40  # rounds


@cache
def wide_map() -> VocabMap:
    """Draft id i spells target id i, as far as there are pairs; two of them spell each other target id."""
    spellings = [[i] for i in range(PAIRS)]
    spellings += [[i % PAIRS, i // 7 % PAIRS] for i in range(PAIRS, TARGET - UNSPELLED)]
    leaves = sorted(range(len(spellings)), key=lambda i: (spellings[i], i))
    direct = np.full(DRAFT, -1, dtype=np.int32)
    direct[:PAIRS] = np.arange(PAIRS)
    return VocabMap(
        target_bytes=ragged([[]] * TARGET, np.uint8),
        direct=direct,
        spellings=ragged(spellings + [[]] * UNSPELLED),
        expansions=ragged([[]] * DRAFT),
        leaves=np.array(leaves, dtype=np.int32),
        draft_allowed=np.arange(DRAFT) < DRAFT - 100,
        draft_fingerprint="d" * 64,
        target_fingerprint="e" * 64,
    )


class PeakedRows:
    """A model that likes one token after each token, more or less, and makes no array in a pass."""

    max_length = 1 << 20

    def __init__(self, width: int, seed: int) -> None:
        self.vocab_size, self.length = width, 0
        rng = np.random.default_rng(seed)
        self._rows = rng.normal(scale=1.5, size=(8, width)).astype(np.float32)
        self._peaks = rng.uniform(12.0, 26.0, size=64)
        self._raised: list[tuple[int, int, np.float32]] = []

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> npt.NDArray[np.float32]:
        for row, liked, value in reversed(self._raised):
            self._rows[row, liked] = value
        self._raised = []
        rows = self._rows[: num_logits or len(tokens)]
        for row, token in enumerate(tokens[-len(rows) :]):
            liked = (7 * token + 1) % PAIRS
            self._raised.append((row, liked, rows[row, liked]))
            rows[row, liked] = self._peaks[(self.length + row) % len(self._peaks)]
        self.length += len(tokens)
        return rows

    def rewind(self, length: int) -> None:
        self.length = length


def rounds(random: SplitMix64, temperature: float, verification: Verification) -> Iterator[Round]:
    models = DecoderModels(PeakedRows(TARGET, 1), Drafter(PeakedRows(DRAFT, 2), [1]), NgramCache(wide_map()))
    config = config_of("trie", SamplingConfig(temperature), 1 << 16, verification=verification)
    return decode_prompt(models, [3], [3], config, FixedLength(5), random)


@pytest.mark.parametrize(
    ("temperature", "verification"), [(0.0, "token"), (1.0, "token"), (1.0, "block"), (0.7, "token")]
)
def test_rounds_allocate_no_row(
    temperature: float, verification: Verification, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once every array that they need was made, rounds make none of the size of a row of the drafter."""
    full_passes = 0
    root_masses = decision.root_masses

    def counted(*arguments: object) -> object:
        nonlocal full_passes
        full_passes += 1
        return root_masses(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(decision, "root_masses", counted)
    loop = rounds(SplitMix64(5), temperature, verification)
    tracemalloc.start()
    try:
        accepted, largest = 0, 0
        for number in range(WARM + MEASURED):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            accepted += next(loop).accepted
            if number >= WARM:
                largest = max(largest, tracemalloc.get_traced_memory()[1] - before)
            else:
                before_measured = full_passes
    finally:
        tracemalloc.stop()
    assert accepted > WARM + MEASURED, "rounds of one row would show little"
    assert largest < 4 * DRAFT
    assert temperature == 0.0 or full_passes > before_measured, "all options of a decision were computed"
