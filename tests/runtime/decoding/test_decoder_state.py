"""The state of a text: what the KV cache keeps between texts, and where the drafter's window begins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidraft.runtime.decoding.draft_length import Plan
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.model import Cancelled
from omnidraft.runtime.decoding.prefill import PREFILL_CHUNK, prefill
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.speculate import DecoderState
from omnidraft.runtime.decoding.stop import cut_at_eos
from support.toy import ContextModel

NO_END = cut_at_eos(())


def long_text(size: int, seed: int) -> list[int]:
    """Token ids by a seed: number by number hypothesis seldom draws as many as a chunk has."""
    tokens: list[int] = np.random.default_rng(seed).integers(0, 4, size).tolist()
    return tokens


Long = st.builds(long_text, st.integers(PREFILL_CHUNK + 2, 300), st.integers(0, 99))
Ids = st.one_of(st.lists(st.integers(0, 3), min_size=1), Long)


class Reader(ContextModel):
    """A model whose logits nobody looks at: rows of long texts take time."""

    def row(self, context: Sequence[int]) -> npt.NDArray[np.float64]:
        return np.zeros(self.vocab_size)


def counting(model: ContextModel) -> list[int]:
    """A list to which the number of tokens of each later pass of a model is appended."""
    widths: list[int] = []
    score = model.score

    def counted(ids: list[int], num_logits: int | None = None) -> object:
        widths.append(len(ids))
        return score(ids, num_logits)

    model.score = counted  # type: ignore[method-assign, assignment]
    return widths


@given(Ids, Ids)
def test_a_text_is_read_once_and_what_it_shares_with_the_last_is_not(
    first: list[int], second: list[int]
) -> None:
    model, text = Reader(0, 4, max_length=400), DecoderState()
    text.restart(first, [], 9, NO_END)
    prefill(model, text.tokens, text.cached)
    assert model.context == text.cached == first[:-1]
    widths = counting(model)
    text.restart(second, [], 9, NO_END)
    prefill(model, text.tokens, text.cached)
    assert model.context == text.cached == second[:-1]
    shared = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    shared = min(len(first), len(second)) if shared is None else shared
    assert sum(widths) == len(second) - 1 - min(shared, len(first) - 1, len(second) - 1)
    assert all(width <= PREFILL_CHUNK for width in widths)


@given(Long)
def test_a_prefill_that_was_cancelled_continues_where_it_stopped(tokens: list[int]) -> None:
    model, text = Reader(0, 4, max_length=400), DecoderState()
    text.restart(tokens, [], 9, NO_END)
    score, passes = model.score, 0

    def cancelled_at_the_second(ids: list[int], num_logits: int | None = None) -> object:
        nonlocal passes
        passes += 1
        if passes == 2:
            raise Cancelled
        return score(ids, num_logits)

    model.score = cancelled_at_the_second  # type: ignore[method-assign, assignment]
    with pytest.raises(Cancelled):
        prefill(model, text.tokens, text.cached)
    assert model.context == text.cached == tokens[:PREFILL_CHUNK]
    prefill(model, text.tokens, text.cached)
    assert model.context == text.cached == tokens[:-1]


def test_forgetting_the_kv_cache_reads_everything_again() -> None:
    """This happens after a change of the target's adapter, and after a measurement."""
    model, text = ContextModel(0, 4, max_length=400), DecoderState()
    text.restart([1, 2, 3, 0], [], 9, NO_END)
    prefill(model, text.tokens, text.cached)
    text.cached.clear()
    widths = counting(model)
    prefill(model, text.tokens, text.cached)
    assert widths == [3] and model.context == [1, 2, 3]


@pytest.mark.parametrize(("max_length", "start"), [(16, ()), (17, (7,)), (40, (7,)), (4, (7,))])
def test_the_drafters_window_depends_on_the_length_alone_and_always_fits(
    max_length: int, start: tuple[int, ...]
) -> None:
    begins = []
    for length in range(1, 3 * max_length):
        model = ContextModel(0, 8, max_length=max_length)
        drafter = Drafter(model, start)
        drafter.propose([1] * length, Plan("draft", 48), 0.0, np.empty(0, np.int32), SplitMix64(0))
        assert len(model.context) <= max_length
        begins.append(drafter._window(length))
    assert begins == sorted(begins)
    assert begins[0] == 0 and begins[-1] > 0
    assert len(set(begins)) <= 1 + len(begins) // max(1, (max_length // 2 - len(start)) // 2)
