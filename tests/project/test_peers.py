"""The comparison with transformers: a decoder with another distribution is told from an exact one."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.peers.__main__ import RESULTS, read
from benchmarks.peers.decoders import Answer
from benchmarks.peers.distribution import distance
from benchmarks.peers.tables import tables

PAIRS = {(1, 2): 0.5, (1, 3): 0.25, (4, 2): 0.15}  # the rest, 0.1, is some other pair
OTHER = (7, 7)


class Draws:
    """Draws pairs with given probabilities."""

    def __init__(self, probabilities: Sequence[float]) -> None:
        self.probabilities = probabilities

    def generate(self, prompt: Sequence[int], temperature: float, seed: int, new_tokens: int) -> Answer:
        pairs = [*PAIRS, OTHER]
        drawn = np.random.default_rng([seed, *prompt]).choice(len(pairs), p=self.probabilities)
        return Answer([*pairs[drawn], 0], 1)


@pytest.mark.parametrize(
    ("probabilities", "exact"), [((0.5, 0.25, 0.15, 0.1), True), ((0.35, 0.4, 0.15, 0.1), False)]
)
def test_a_biased_decoder_is_farther_than_chance(probabilities: tuple[float, ...], exact: bool) -> None:
    found = distance(Draws(probabilities), [[1], [2]], [PAIRS, PAIRS], 400)
    assert (found.drawn < found.chance) is exact


def test_the_published_tables_come_from_whole_lines() -> None:
    lines = read(RESULTS)
    assert {line["temperature"] for line in lines} == {0.0, 1.0}
    page = (RESULTS.parents[2] / "docs/benchmarks.md").read_text(encoding="utf-8")
    missing = [row for row in tables(lines) if row not in page]
    assert not missing, f"docs/benchmarks.md lacks {json.dumps(missing[:2])}"
