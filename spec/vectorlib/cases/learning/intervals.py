"""Vectors of `learner/rate`, `mean`, `guard` and `interval`: an adapter while it learns."""

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from vectorlib.reference.learning.intervals import Answer, Guard, Intervals, mean_of, rate
from vectorlib.reference.random_source import uniforms_of
from vectorlib.writer import VectorWriter, vector

Case = dict[str, Any]
DEFAULTS = json.loads((Path(__file__).resolve().parents[3] / "defaults.json").read_text(encoding="utf-8"))
USUAL: dict[str, float] = DEFAULTS["learner"]["guard"]


def write(writer: VectorWriter) -> None:
    writer.vectors("learner/rate", "schedules", [_rate(*case) for case in RATES])
    writer.vectors("learner/mean", "means", [
        vector(name, why, {"steps": steps}, {"means": mean_of(steps)}) for name, why, steps in MEANS
    ])  # fmt: skip
    writer.vectors("learner/guard", "verdicts", [_guard(*case) for case in _watched()])
    writer.vectors("learner/interval", "intervals", [_interval(*case) for case in _interval_cases()])


RATES: list[tuple[str, str, str, float, int]] = [
    ("constant", "the same rate at every step", "constant", 4e-3, 5),
    ("decay", "rises over 5 %, falls over 30 %", "decay", 1e-3, 40),
    ("decay_odd", "shares that are not whole steps", "decay", 1e-3, 33),
    ("decay_short", "the first of three steps has the full rate", "decay", 1e-3, 3),
    ("decay_one", "a single step", "decay", 1e-3, 1),
]


def _rate(name: str, why: str, schedule: str, highest: float, total: int) -> Case:
    given = {"schedule": schedule, "rate": highest, "total": total}
    return vector(name, why, given, {"rates": [rate(schedule, highest, i, total) for i in range(total)]})


MEANS: list[tuple[str, str, list[list[float] | None]]] = [
    ("first", "the mean begins with the first step", [[1.0, -2.0]]),
    ("steps", "the first steps lose weight", [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [4.0, -4.0]]),
    ("skipped", "a skipped step does not count", [None, [1.0, 0.0], None, [0.0, 1.0]]),
    (
        "long",
        "from the 82nd step on, nine tenths of the mean stay",
        [[float(i % 7), 0.125 * i] for i in range(90)],
    ),
]


def scattered(seed: int, count: int, ratio: float, passes: int = 20) -> list[Answer]:
    """Answers with about `ratio` tokens per target pass."""
    drawn = islice(uniforms_of(seed), 2 * count)
    answers = []
    for a, b in zip(drawn, drawn, strict=True):
        n = passes // 2 + int(a * passes)
        answers.append((max(n, round(n * (ratio + 0.2 * (b - 0.5)))), n))
    return answers


def _watched() -> list[tuple[str, str, dict[str, float], list[list[Answer]]]]:
    def steady(ratio: float, *counts: int, seed: int = 1) -> list[list[Answer]]:
        return [scattered(seed + i, count, ratio) for i, count in enumerate(counts)]

    few = USUAL | {"least": 4, "window": 8, "deviations": 2.5}
    return [
        ("too_few", "seven answers are too few for a verdict", USUAL, steady(2.0, 7)),
        ("first_window", "the first eight answers become the reference", USUAL, steady(1.0, 8)),
        ("no_change", "random differences only", USUAL, steady(2.0, *[8] * 8)),
        ("better", "better answers join the reference", USUAL,
         [*steady(1.6, 8, 8), *steady(2.4, 8, 8, seed=5)]),
        ("worse", "the drafts stop being accepted", USUAL, [*steady(2.2, 8, 8), *steady(1.2, 8, 8, seed=5)]),
        ("worse_in_time", "a smaller fall needs more answers", USUAL,
         [*steady(2.0, 8, 8, 8, 8), *steady(1.85, 8, 8, 8, 8, seed=9)]),
        ("a_little_lower", "never significantly lower: a full window becomes the reference", USUAL,
         [*steady(2.0, 8), *steady(1.96, 8, 8, 8, 8, seed=5)]),
        ("slowly_down", "small steps down, many of them", USUAL,
         [scattered(20 + i, 8, 2.4 - 0.04 * i) for i in range(30)]),
        ("below_the_fall", "significantly lower, but by less than the threshold", USUAL,
         [[(2000, 1000)] * 8, [(1970, 1000)] * 8]),
        ("above_the_fall", "no variance at all: a fall above the threshold is worse", USUAL,
         [[(2000, 1000)] * 8, [(1950, 1000)] * 8]),
        ("sample", "the variance is that of a sample, with n - 1: not significant", USUAL,
         [scattered(200, 8, 2.0), scattered(201, 8, 1.9)]),
        ("long_and_short", "a ratio of sums: one long answer weighs more than one of eight", USUAL,
         [[(20, 10)] * 7 + [(900, 300)], [(20, 10)] * 8]),
        ("window_slides", "the oldest answers leave the reference", few,
         [*steady(3.0, 4, 4), *[[(4 * n + 1, n)] * 4 for n in range(10, 16)]]),
        ("one_at_a_time", "a verdict after each answer", few, [[a] for a in scattered(40, 24, 1.8)]),
        ("other_settings", "four answers, and fewer deviations", few,
         [*steady(2.0, 4, 4), *steady(1.3, 4, 4, seed=7)]),
    ]  # fmt: skip


def _guard(name: str, why: str, options: dict[str, float], intervals: Sequence[Sequence[Answer]]) -> Case:
    guard, expect = Guard(options), []
    for answers in intervals:
        guard.current += answers
        verdict = guard.verdict()
        expect.append([verdict, len(guard.reference), len(guard.current)])
    given = {"options": options, "intervals": [[list(a) for a in each] for each in intervals]}
    return vector(name, why, given, {"verdicts": expect})


Interval = tuple[list[Answer], str]


def _interval_cases() -> list[tuple[str, str, int, list[Interval]]]:
    def at(ratio: float, *outcomes: str, seed: int = 0) -> list[Interval]:
        return [(scattered(100 * seed + i, 8, ratio), outcome) for i, outcome in enumerate(outcomes)]

    good, bad = ("learned",) * 4, ("learned",) * 12
    return [
        ("learning", "each version is good before the next is learned", 64, at(2.0, *good)),
        ("skipped", "no step was applied: the adapter in use does not change", 64, at(2.0, "skipped", *good)),
        ("not_finite", "the learned adapter is not finite", 64, at(2.0, "not finite", *good)),
        ("twice_not_finite", "the cooldown doubles, and the rate scale halves twice", 64,
         at(2.0, "learned", "not finite", "learned", "not finite", "learned", "learned", "learned")),
        ("worse", "the drafts of the second version are not accepted: back to the first, and a cooldown", 64,
         [*at(2.2, "learned", "learned"), *at(1.1, *good, seed=1), *at(2.2, *good, seed=2)]),
        ("worse_again", "rollbacks in a row", 64,
         [*at(2.2, "learned", "learned"), *at(1.0, "learned", seed=1), *at(2.2, "learned", "learned", seed=2),
          *at(1.0, "learned", seed=3), *at(2.2, *good, seed=4)]),
        ("other_texts", "worse with no new version in use: the guard starts again", 64,
         [*at(2.4, "skipped", "skipped", seed=1), *at(1.1, "skipped", "learned", "learned", seed=2)]),
        ("hopeless", "at most 32 intervals of cooldown", 3, [([(2, 1)], "not finite")] * 108),
        ("memory", "the last 12 answers are kept", 12, at(2.0, *good)),
        ("no_memory", "no answer is kept", 0, at(2.0, "learned", "learned")),
        ("short_intervals", "intervals of three answers: not every interval has a verdict", 8,
         [(scattered(60 + i, 3, 2.0), o) for i, o in enumerate(bad)]),
    ]  # fmt: skip


def _interval(name: str, why: str, most: int, intervals: Sequence[Interval]) -> Case:
    state = Intervals(Guard(USUAL), most)
    expect = [state.end(answers, outcome) for answers, outcome in intervals]
    listed = [{"answers": [list(a) for a in answers], "outcome": o} for answers, o in intervals]
    return vector(name, why, {"options": USUAL, "memory": most, "intervals": listed}, {"intervals": expect})
