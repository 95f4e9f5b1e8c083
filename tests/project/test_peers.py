"""The comparison with peers: what is exact is told from what is not, and the tables come from the results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.peers.decoders import Answer
from benchmarks.peers.distribution import distance
from benchmarks.peers.lines import COUNTS, DISTANCES, RESULTS, SPEEDS, Line, read, tidy
from benchmarks.peers.tables import count_tables, counts, goal_table, speed_of, speed_tables
from benchmarks.support.json_lines import append

PAIRS = {(1, 2): 0.5, (1, 3): 0.25, (4, 2): 0.15}  # the rest, 0.1, is some other pair
OTHER = (7, 7)


class Draws:
    """Draws pairs with given probabilities."""

    def __init__(self, probabilities: Sequence[float]) -> None:
        self.probabilities = probabilities

    def generate(self, prompt: Sequence[int], temperature: float, seed: int, new_tokens: int) -> Answer:
        pairs = [*PAIRS, OTHER]
        drawn = np.random.default_rng([seed, *prompt]).choice(len(pairs), p=self.probabilities)
        return Answer([*pairs[drawn], 0], 1, 0.0, 0.0)


@pytest.mark.parametrize(
    ("probabilities", "exact"), [((0.5, 0.25, 0.15, 0.1), True), ((0.35, 0.4, 0.15, 0.1), False)]
)
def test_a_biased_decoder_is_farther_than_chance(probabilities: tuple[float, ...], exact: bool) -> None:
    found = distance(Draws(probabilities), [[1], [2]], [PAIRS, PAIRS], 400)
    assert (found.drawn < found.chance) is exact


def line(prompt: int, seed: int, tokens: int, weights: str = "old") -> Line:
    """Of an answer in four passes."""
    arm = {"target": "starter-a", "arm": "omnidraft auto", "drafter": "learned", "temperature": 1.0}
    return arm | {
        "task": "GSM8K",
        "prompt": prompt,
        "seed": seed,
        "tokens": tokens,
        "passes": 4,
        "weights": weights,
    }


def test_a_newer_line_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    for each in (line(0, 0, 8), line(1, 0, 8), line(0, 0, 12, "new")):
        append(file, each)
    assert read(file) == [line(0, 0, 12, "new"), line(1, 0, 8)]
    tidy(file)
    assert len(file.read_text().splitlines()) == 2
    assert read(file) == [line(0, 0, 12, "new"), line(1, 0, 8)]


def test_half_a_line_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    append(file, line(0, 0, 8))
    with file.open("a") as out:
        out.write('{"target": "star')
    assert read(file) == [line(0, 0, 8)]
    append(file, line(1, 0, 8))
    assert read(file) == [line(0, 0, 8), line(1, 0, 8)]


def test_a_seed_without_all_prompts_is_not_counted() -> None:
    lines = [line(0, 0, 8), line(1, 0, 12), line(1, 1, 16)]
    assert counts(lines, ["GSM8K"]) == [{"emitted": [8, 12], "rounds": [4, 4]}]


@pytest.mark.parametrize(("read_seconds", "speed"), [(0.2, 1.0), (0.1, 1.25)])
def test_a_speed_is_that_of_as_many_tokens_of_plain_decoding(read_seconds: float, speed: float) -> None:
    # Both runs of plain decoding take 0.1 s to the first token and 0.01 s for each of the 40 after it.
    answer = line(0, 0, 41) | {"read_seconds": read_seconds, "decode_seconds": 0.3}
    answer |= {"plain_read_seconds": [0.08, 0.12], "plain_token_seconds": [0.009, 0.011]}
    assert speed_of(answer) == pytest.approx(speed)


def test_the_published_tables_come_from_the_results() -> None:
    lines, page = read(RESULTS / COUNTS), RESULTS.parents[1] / "docs/benchmarks.md"
    assert {line["temperature"] for line in lines} == {0.0, 1.0}
    rows = [*count_tables(lines, read(RESULTS / DISTANCES)), *goal_table(lines)]
    rows += speed_tables(read(RESULTS / SPEEDS))
    published = page.read_text(encoding="utf-8")
    missing = [row for row in rows if row not in published]
    assert not missing, f"docs/benchmarks.md lacks {json.dumps(missing[:2])}"
