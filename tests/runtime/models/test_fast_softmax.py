"""The softmax of onnxruntime beside the one of the portable core."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.runtime.decoding.distribution import softmax
from omnidraft.runtime.models.fast_softmax import fast_softmax


def test_probabilities_are_those_of_float64_and_minus_infinity_has_none() -> None:
    logits = (np.random.default_rng(0).normal(size=49_153) * 6).astype(np.float32)
    logits[::7] = -np.inf
    exact = softmax(logits.astype(np.float64))
    weights = fast_softmax(logits)
    assert weights.dtype == np.float32 and (weights[::7] == 0.0).all()
    assert np.abs(weights / weights.sum(dtype=np.float64) - exact / exact.sum()).sum() < 1e-5
    assert (fast_softmax(logits) == weights).all()


def test_float64_stays_float64() -> None:
    logits = np.array([0.0, -1.0, -80.0])
    assert (fast_softmax(logits) == softmax(logits)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_without_a_distribution_gives_nan(bad: float) -> None:
    assert np.isnan(fast_softmax(np.array([0.0, bad, 1.0], np.float32))).any()
