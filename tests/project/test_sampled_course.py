"""Courses on sampled answers: the order of the answers, and settings that keep the keys of older results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.experiments.running.recipes import Recipe
from benchmarks.experiments.running.sampled_training import Course


def course(**settings: Any) -> Course:
    return Course("a", ("gsm8k",), (1.0,), Recipe("trie-kl"), **settings)


def answers(ngrams: list[int]) -> Any:
    """Answers of ten tokens, of which some take two draft tokens."""
    return [
        SimpleNamespace(owners=np.repeat(np.arange(10), np.where(np.arange(10) < n, 2, 1))) for n in ngrams
    ]


def test_each_pass_takes_each_answer_once() -> None:
    order = course(repeats=3).order(answers([0] * 7))
    assert np.array_equal(np.sort(order.reshape(3, 7), axis=1), np.tile(np.arange(7), (3, 1)))


def test_answers_with_ngrams_are_drawn_more_often() -> None:
    order = course(repeats=2000, by_ngrams=True).order(answers([0, 1, 9]))
    shares = np.bincount(order, minlength=3) / len(order)
    assert len(order) == 6000
    assert shares == pytest.approx([1 / 13, 2 / 13, 10 / 13], abs=0.03)


def test_settings_that_are_usual_stay_out_of_the_key() -> None:
    assert "by_ngrams" not in course().as_json()
    assert course(by_ngrams=True).as_json()["by_ngrams"] is True
