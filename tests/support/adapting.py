"""Adaptations of a starter bundle in seconds: short answers and small adapters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from omnidraft.learning.averaged import AveragedLearner
from omnidraft.learning.online.adaptation import CURVE, Adaptation
from omnidraft.learning.online.adapted_target import AdaptOptions
from omnidraft.learning.online.curve import CurveLine, read_curve
from omnidraft.learning.online.profiles import pair_of, profile_of
from omnidraft.learning.step.learner import Learner
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.language_model import LanguageModel
from omnidraft.runtime.vocab.cache_store import read_table
from omnidraft.sample_prompts import word_problems

REQUEST = GenerationConfig(max_new_tokens=24, num_draft_tokens=4, seed=0)
SMALL = AdaptOptions(interval=4, passes=1, replayed=2, memory=12)
PROMPTS = word_problems(64)


def learner(weights: LanguageModel) -> Learner:
    """LoRA of the starter drafter, by the bundle's training step."""
    options = StepOptions(learning_rate=3e-3, weight_decay=0.0)
    return AveragedLearner(OrtLearner(weights.bundle, weights.vocab_map, options))


def begin(
    place: Path,
    weights: LanguageModel,
    options: AdaptOptions = SMALL,
    make: Callable[[LanguageModel], Learner] = learner,
) -> Adaptation:
    """An adaptation to one target."""
    adaptation = Adaptation(place, make, options, prompts="the same")
    adaptation.begin(weights)
    return adaptation


def answers(adaptation: Adaptation, count: int, request: GenerationConfig = REQUEST) -> list[CurveLine]:
    """Answer the next prompts."""
    return [adaptation.answer(PROMPTS[adaptation.position % len(PROMPTS)], request) for _ in range(count)]


def assert_same(one: Path, other: Path, weights: LanguageModel) -> None:
    """The two places differ in times alone."""
    first, second = (profile_of(place, weights.bundle) for place in (one, other))
    a, b = (p.read(pair_of_weights(weights)) for p in (first, second))
    assert a is not None and b is not None
    for x, y in ((a.learner, b.learner), (a.good, b.good)):
        assert x.keys() == y.keys()
        assert all(np.array_equal(x[name], y[name]) for name in x)
    assert replace(a.progress, plain=[]) == replace(b.progress, plain=[])
    one_table, other_table = (read_table(p.cache) for p in (first, second))
    assert one_table.tick == other_table.tick
    for name in ("targets", "ticks", "hits", "accepted"):
        assert np.array_equal(getattr(one_table, name), getattr(other_table, name)), name
    assert [p.name for p in sorted(first.answers.iterdir())] == [
        p.name for p in sorted(second.answers.iterdir())
    ]
    for file in first.answers.iterdir():
        assert file.read_bytes() == (second.answers / file.name).read_bytes()
    assert first.adapter.exists() == second.adapter.exists()
    if first.adapter.exists():
        assert read_adapter(first.adapter).digest == read_adapter(second.adapter).digest
    curves = [
        [replace(x, seconds=0, plain=None, learning=0) for x in read_curve(p / CURVE)] for p in (one, other)
    ]
    assert curves[0] == curves[1]


def pair_of_weights(weights: LanguageModel) -> dict[str, str]:
    return pair_of(weights.bundle, weights.vocab_map.draft_fingerprint, weights.vocab_map.target_fingerprint)
