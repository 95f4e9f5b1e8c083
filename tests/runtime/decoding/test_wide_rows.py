"""Rows of the width of a real vocabulary: rounds allocate none, and bounds decide as all weights would."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.runtime.decoding import decision
from omnidraft.runtime.decoding.baselines import Verification
from omnidraft.runtime.decoding.distribution import WIDE, Categorical, Softmax, Workspace, peaks_of
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
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


@pytest.mark.parametrize("verification", ["token", "block"])
def test_bounds_change_no_verdict(verification: Verification, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tokens and the same uniforms as where each ratio is computed, with fewer rows computed."""

    def run() -> tuple[list[Round], int, int]:
        computed.clear()
        random = SplitMix64(9)
        loop = rounds(random, 1.0, verification)
        return [next(loop) for _ in range(60)], random.state, len(computed)

    computed: list[Softmax] = []
    blocks = Categorical.__dict__["_blocks"].func

    def watched(row: Softmax) -> object:
        if isinstance(row, Softmax):
            computed.append(row)
        return blocks(row)

    monkeypatch.setattr(Categorical.__dict__["_blocks"], "func", watched)
    bounded, state, few = run()
    monkeypatch.setattr(Softmax, "mass_bounds", lambda *_: (0.0, np.inf))
    plain, plain_state, all_rows = run()
    assert [r.emitted for r in bounded] == [r.emitted for r in plain]
    assert state == plain_state
    assert few < all_rows - 5


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_hold_and_are_near(dtype: type[np.floating], temperature: float) -> None:
    """The mass by all weights is between them, in spite of rounding; with one peak they are close."""
    rng = np.random.default_rng(4)
    narrow = 0
    for peak in np.linspace(4.0, 60.0, 60):
        logits = (2.0 * rng.normal(size=20_011)).astype(dtype)
        ids = rng.choice(len(logits), 3, replace=False)
        logits[ids[0]], logits[ids[1]] = peak, peak - 2.0
        exact = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
        for some in (ids, ids[:1], ids[1:]):
            mass = float(exact[some].sum() / exact.sum())
            row = Softmax(logits, peaks_of(logits), temperature, Workspace())
            low, high = row.mass_bounds(some)
            assert low <= mass <= high
            assert low <= row.mass(some) and (row.mass(some) < high or high >= 1.0)
            narrow += high - low < 0.05
            assert row.mass(some) == pytest.approx(mass, rel=1e-5)
            assert row.mass_bounds(some) == (row.mass(some), row.mass(some))
    assert narrow > 60


def test_a_token_alone_has_less_than_all_mass_where_another_has_some() -> None:
    """Then a decision takes a uniform number, whatever the bounds say."""
    logits = np.full(5_000, -25.0, dtype=np.float32)
    logits[700] = 0.0
    row = Softmax(logits, peaks_of(logits), 1.0, Workspace())
    assert row.mass_bounds(np.array([700]))[1] < 1.0
    assert row.probability(np.array([700]))[0] < 1.0
    logits[:] = -100.0
    logits[700] = 0.0
    row = Softmax(logits, peaks_of(logits), 1.0, Workspace())
    assert row.mass_bounds(np.array([700]))[1] >= 1.0
    assert row.probability(np.array([700]))[0] == 1.0


def test_few_weights_are_those_of_the_whole_row() -> None:
    logits = np.random.default_rng(6).normal(size=5_000).astype(np.float32)
    ids = np.array([4_999, 0, 17])
    row = Softmax(logits, peaks_of(logits), 0.9, Workspace())
    few = row.shares(ids).tolist()
    assert row.draw(0.3, ids) == Softmax(logits, peaks_of(logits), 0.9, Workspace()).draw(0.3, ids)
    whole = row.probability(np.arange(5_000))
    assert row.shares(ids).tolist() == few
    assert whole[ids] / whole[ids].sum() == pytest.approx(np.array(few) / sum(few))


def test_rows_that_share_memory_give_what_each_gives_alone() -> None:
    """A row is drawn from after another row took its memory, and after `without` changed its weights."""
    rng = np.random.default_rng(8)
    rows = rng.normal(scale=2.0, size=(3, 5_000)).astype(np.float32)
    ids, uniforms = np.array([17, 4_999]), rng.random(20).tolist()
    shared = Workspace()

    def of(logits: npt.NDArray[np.float32], workspace: Workspace) -> Softmax:
        return Softmax(logits, peaks_of(logits), 0.8, workspace)

    together = [of(logits, shared) for logits in rows]
    alone = [of(logits, Workspace()) for logits in rows]
    for uniform in uniforms:
        for one, other in zip(together, alone, strict=True):
            assert one.draw(uniform) == other.draw(uniform)
            assert one.shares(ids).tolist() == pytest.approx(other.shares(ids).tolist(), rel=1e-6)
        without = [one.without(ids).draw(uniform) for one in together]
        assert without == [other.without(ids).draw(uniform) for other in alone]
        assert not set(without) & set(ids.tolist())
        outside = [one.mass_outside(ids) for one in together]
        assert outside == pytest.approx([1.0 - other.mass(ids) for other in alone], rel=1e-5)


@pytest.mark.parametrize("size", [1, 600, WIDE, WIDE + 1, 3 * WIDE - 5])
def test_the_largest_logit_of_each_block(size: int) -> None:
    logits = np.random.default_rng(size).normal(size=size).astype(np.float32)
    blocks = [logits[start : start + WIDE] for start in range(0, size, WIDE)]
    assert peaks_of(logits).tolist() == [block.max() for block in blocks]
    logits[-1] = np.nan
    assert np.isnan(peaks_of(logits).max())
    logits[-1] = np.inf
    assert peaks_of(logits)[-1] == np.inf


def test_an_array_is_kept_for_each_use() -> None:
    workspace = Workspace()
    first = workspace.array("a", 10, np.float32)
    assert np.shares_memory(workspace.array("a", 4, np.float32), first)
    assert np.shares_memory(workspace.array("a", 10, np.float32), first)
    assert not np.shares_memory(workspace.array("b", 10, np.float32), first)
    assert workspace.array("a", 10, np.float64).dtype == np.float64
