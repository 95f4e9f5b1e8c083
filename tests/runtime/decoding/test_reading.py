"""A text read again computes what was computed alone alone, and leaves the very same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidraft import load
from omnidraft.runtime.decoding.prefill import PREFILL_CHUNK, flags_of, read, runs_of
from support.toy import ContextModel


@given(st.lists(st.booleans(), max_size=40))
def test_runs_are_flags(alone: list[bool]) -> None:
    assert flags_of(runs_of(alone)) == alone
    assert sum(runs_of(alone)) == len(alone)


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(0, 300))
def test_each_position_is_read_once_and_in_its_company(alone: list[bool], start: int) -> None:
    start = min(start, len(alone))
    model = ContextModel(0, 4, max_length=len(alone) + 1)
    tokens = [i % 4 for i in range(len(alone))]
    model.context = tokens[:start]
    widths: list[int] = []
    score = model.score

    def counting(ids: list[int], num_logits: int | None = None) -> object:
        widths.append(len(ids))
        return score(ids, num_logits)

    model.score = counting  # type: ignore[assignment]
    ends = list(read(model, tokens, alone))
    assert model.context == tokens
    assert ends == sorted(set(ends)) and (not ends or ends[-1] == len(tokens))
    for begin, end, width in zip([start, *ends], ends, widths, strict=False):
        assert width == 1 if alone[begin] else width > 1
        assert width <= PREFILL_CHUNK and not (alone[begin] and end > begin + 1)


@pytest.mark.parametrize("role", [0, 1])
def test_the_bits_depend_on_being_alone_and_on_nothing_else(bundle: Path, role: int) -> None:
    """What `reading` relies on; a kernel for which this is false needs a finer record of passes."""
    graph = [load(bundle).weights.target, load(bundle).weights.drafter][role]
    assert graph is not None
    rng = np.random.default_rng(0)
    ids = [int(i) for i in rng.integers(0, graph.vocab_size, 150)]

    def logits(widths: list[int]) -> np.ndarray:
        model, at = graph.new_model(), 0
        for width in widths:
            model.score(ids[at : at + width], 1)
            at += width
        assert at == 140
        return np.array(model.score(ids[140:143]))

    whole = logits([64, 64, 12])
    for widths in ([2] * 70, [3] * 46 + [2], [7] * 20, [62, 64, 14]):
        assert np.array_equal(logits(widths), whole), widths
    assert np.array_equal(logits([60, *[1] * 20, 60]), logits([50, 10, *[1] * 20, 30, 30]))
