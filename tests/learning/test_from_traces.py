"""From recorded generations to training positions: the same as from the responses' own rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligned, Aligner, SparseDistributions
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.learning.positions.from_traces import TraceAligner
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.modes import MODES, Mode
from omnidraft.runtime.traces.trace import FLOOR, Start, Traced
from support.aligning import dense_rows
from support.configs import config_of
from support.toy import DRAFT, TARGET, ContextModel, softmax, toy_cache, toy_map
from support.tracing import Collector

TOY = toy_map()
START = (DRAFT.index("#"),)
PROMPT = [0, 3, 1]  # means the same in both toy vocabularies
TOYS = TraceAligner(Aligner(full_trie(TOY), max_length=400), START)
Distributions = npt.NDArray[np.floating]


def recorded(mode: Mode, seed: int, count: int = 40) -> tuple[Traced, Distributions, list[Round]]:
    """A toy generation as a trace has it, and the target's whole distribution before each of its tokens."""
    target = ContextModel(2 * seed, len(TARGET))
    models = DecoderModels(
        target, Drafter(ContextModel(2 * seed + 1, len(DRAFT)), START), toy_cache(TOY, ["FO"])
    )
    config, collector = config_of(mode, SamplingConfig(0.7), count), Collector(TOY)
    length = FixedLength(0 if mode == "plain" else 5)
    random = SplitMix64(seed)
    rounds_run = list(decode_prompt(models, PROMPT, PROMPT, config, length, random, (), collector))
    emitted = [*PROMPT, *(t for each in rounds_run for t in each.emitted)]
    distributions = np.array(
        [softmax(target.row(emitted[:i]), 1.0) for i in range(len(PROMPT), len(emitted))]
    )
    return (
        Traced(Start(None, None, mode, False, 0, tuple(PROMPT)), tuple(collector.traced)),
        distributions,
        rounds_run,
    )


def same(actual: Aligned, expected: Aligned) -> None:
    """The same places, and distributions that agree as far as float16 tells."""
    assert actual.draft_ids.tolist() == expected.draft_ids.tolist()
    assert actual.prompt_length == expected.prompt_length
    assert actual.tokens.tolist() == expected.tokens.tolist()
    assert actual.rows.tolist() == expected.rows.tolist()
    distributions, others = actual.trie_distributions, expected.trie_distributions
    assert distributions.rows.tolist() == others.rows.tolist()
    for n in range(len(distributions)):
        same_distribution(distributions, others, n)


def same_distribution(distributions: SparseDistributions, others: SparseDistributions, n: int) -> None:
    a, b = (
        {int(d): x for d, x in zip(s.ids[n], s.probabilities[n], strict=True) if d >= 0}
        for s in (distributions, others)
    )
    assert all(a[d] == pytest.approx(b[d], rel=2e-3, abs=3 * FLOOR) for d in a.keys() & b.keys())
    # What only one of them lists is as likely as the last that the other lists, or about the floor.
    for s, t in ((a, b), (b, a)):
        most = max(1.002 * min(t.values(), default=0.0), 3 * FLOOR)
        assert all(s[d] <= most for d in s.keys() - t.keys()), (s, t)
    assert distributions.other[n] == pytest.approx(others.other[n], abs=2e-3)
    assert distributions.weights[n] == pytest.approx(others.weights[n], abs=2e-3)


@pytest.mark.parametrize("mode", MODES)
def test_a_trace_is_aligned_as_its_responses_own_rows(mode: Mode) -> None:
    for seed in range(8):
        traced, distributions, run = recorded(mode, seed)
        ids = [t for each in run for t in each.emitted]
        aligned = TOYS.align(traced)
        assert aligned is not None
        same(
            aligned, TOYS.aligner.align([*START, *PROMPT], ids, dense_rows(distributions.astype(np.float64)))
        )
        assert aligned.target_rows.finite


# Records


def test_another_target_is_refused() -> None:
    traced = recorded("trie", 4)[0]
    other = replace(traced, start=replace(traced.start, target_adapter="ab" * 32))
    with pytest.raises(
        SettingError, match="is of the target with adapter abababababab and not with no adapter"
    ):
        TOYS.align(other)
    with pytest.raises(SettingError, match="with no adapter and not with adapter abababababab"):
        replace(TOYS, target_adapter="ab" * 32).align(traced)
    assert replace(TOYS, target_adapter="ab" * 32).align(other) is not None
