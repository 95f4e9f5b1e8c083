"""Comparison of adapters: expected acceptance against drawn tokens, and which adapter is significantly
better.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.learning.compare import acceptances, compare, interval, probabilities
from omnidraft.learning.positions.alignment import Aligned, Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.runtime.models.ort_model import never
from support.aligning import dense_rows, top_rows
from support.toy import DRAFT, TARGET, ContextModel, softmax, toy_map

TOY = toy_map()
ALIGNER = Aligner(full_trie(TOY), max_length=400)
PROMPT = [DRAFT.index("#"), DRAFT.index("s")]
Floats = npt.NDArray[np.float64]


class AdaptedModel(ContextModel):
    """A random model that an adapter makes flatter: logits times (1 - the adapter's first value)."""

    cancelled = staticmethod(never)
    tensors: Mapping[str, npt.NDArray[np.float32]] = {}

    def use_adapter(self, tensors: Mapping[str, npt.NDArray[np.float32]]) -> None:
        self.tensors = tensors

    def interrupt(self) -> None:
        """No run of a graph is going on."""

    def score(self, tokens: object, num_logits: int | None = None) -> Floats:
        rows = super().score(tokens, num_logits)  # type: ignore[arg-type]
        flatter: float = next((float(t.ravel()[0]) for t in self.tensors.values()), 0.0)
        logits: Floats = rows * (1.0 - flatter)
        return logits


def model_of(seed: int) -> AdaptedModel:
    return AdaptedModel(seed, len(DRAFT), max_length=400)


def response_of(seed: int, count: int = 60, top: int | None = None) -> Aligned:
    """A response of a target whose distribution is near that of model 0, so that drafts are accepted."""
    rng, trie = np.random.default_rng(seed), ALIGNER.trie
    drafter, context = ContextModel(0, len(DRAFT)), list(PROMPT)
    tokens: list[int] = []
    distributions: list[Floats] = []
    for _ in range(count):
        q = softmax(drafter.row(context), 1.0)
        p = rng.gamma(0.4, size=len(TARGET)) * 0.1
        for t in range(len(TARGET)):
            spelling = trie.map.spellings.row(t)
            p[t] += 2.0 * q[int(spelling[0])] ** 2 if len(spelling) == 1 else 0.0
        distributions.append(p / p.sum())
        tokens.append(int(rng.choice(len(TARGET), p=distributions[-1])))
        context += [int(d) for d in trie.map.spell(tokens[-1])]
    rows = (
        dense_rows(np.array(distributions)) if top is None else top_rows(np.array(distributions), tokens, top)
    )
    return ALIGNER.align(PROMPT, tokens, rows)


def flatter(by: float) -> dict[str, npt.NDArray[np.float32]]:
    return {"x": np.array([[by]], np.float32)}


def test_it_is_how_often_a_drawn_token_is_accepted() -> None:
    """Draw from q, accept with min(1, P/Q): the share accepted is what is computed, without OTHER."""
    response, rng = response_of(2, 30), np.random.default_rng(0)
    distributions, accepted = response.trie_distributions, acceptances(model_of(0), response)
    for n in np.flatnonzero(distributions.other < 1e-12)[:5]:
        context = response.draft_ids[: response.prompt_length + int(distributions.rows[n])].tolist()
        q = probabilities(ContextModel(0, len(DRAFT)).row(context)[None], TOY.draft_allowed)[0]
        p = np.zeros(len(DRAFT))
        listed = distributions.ids[n] >= 0
        p[distributions.ids[n][listed]] = distributions.probabilities[n][listed]
        drawn = rng.choice(len(q), size=40_000, p=q)
        share = (rng.random(len(drawn)) < p[drawn] / q[drawn]).mean()
        assert share * distributions.weights[n] == pytest.approx(accepted[n], abs=4 * 0.5 / 200)
    assert (distributions.other < 1e-12).sum() >= 5


def test_the_better_is_told_from_the_worse_and_from_its_equal() -> None:
    responses = [response_of(seed, 30) for seed in range(12)]
    worse = compare(model_of(0), responses, {}, flatter(0.9))
    assert worse.high < 0.0 and not worse.is_better and worse.offered < worse.current
    better = compare(model_of(0), responses, flatter(0.9), {})
    assert better.is_better and better.generations == 12
    assert (better.low, better.high) == pytest.approx((-worse.high, -worse.low))
    same = compare(model_of(0), responses, flatter(0.2), flatter(0.2))
    assert same.low == same.high == 0.0 and not same.is_better
    assert same.positions == sum(len(r.trie_distributions) for r in responses)


def test_the_interval_covers_what_it_promises() -> None:
    """Generations of different lengths with correlated positions: 19 of 20 intervals hold the true value."""
    rng, hits = np.random.default_rng(1), 0
    for _ in range(1000):
        counts = rng.integers(5, 80, size=20).astype(np.float64)
        shared = rng.normal(0.02, 0.05, size=20)  # of all places of a generation
        differences = counts * shared + rng.normal(size=20) * np.sqrt(counts) * 0.1
        low, high = interval(differences, counts)
        hits += low <= 0.02 <= high
    assert 0.92 <= hits / 1000 <= 0.97
