"""Vectors of `draft_length`: measured costs and what became of each round -> the lengths."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vectorlib.lengths import Costs, Lengths
from vectorlib.shelf import Shelf, vector

DEFAULTS = Path(__file__).resolve().parents[1] / "defaults.json"

CHEAP = Costs((0.1, 0.101, 0.102, 0.103), 0.002, 0.0005)  # a draft token costs 2 % of a target pass
EVEN = Costs((0.02, 0.021, 0.0225, 0.024, 0.026), 0.004, 0.001)
DEAR = Costs((0.004, 0.006, 0.008), 0.005, 0.001)  # a draft token costs more than a target token
FLAT = Costs((0.05,), 0.001, 0.0)  # one measured pass: longer ones are taken to cost the same

# Outcomes, (judged, accepted, emitted) as shares of what was drafted; cycled over the rounds.
ALL, NONE, HALF, MERGED = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (1.0, 0.5, 0.5), (1.0, 1.0, 0.5)
LONG = (1.0, 0.5, 2.0)
CASES: list[tuple[str, str, Costs, int, list[tuple[float, float, float]]]] = [
    ("first", "before any round: the prior alone", EVEN, 1, [ALL]),
    ("always_right", "everything is accepted: the longest", EVEN, 24, [ALL]),
    ("always_wrong", "the first token is refused each time: soon 0, then probes", EVEN, 60, [NONE]),
    ("half", "half of each draft stands", EVEN, 24, [HALF]),
    ("merged", "two draft tokens make one target token: drafting pays less", EVEN, 24, [MERGED]),
    ("expanded", "a draft token makes several target tokens: the ratio stops at 1.5", EVEN, 24, [LONG]),
    ("changing", "good and bad rounds take turns", EVEN, 24, [ALL, NONE, HALF]),
    ("cheap_wrong", "a cheap drafter survives many refusals", CHEAP, 40, [NONE]),
    ("cheap_right", "nearly free drafting", CHEAP, 12, [ALL]),
    ("dear", "drafting never pays: only probes, each wait twice as long", DEAR, 80, [NONE]),
    ("dear_but_right", "probes that go well bring it back or not", DEAR, 80, [ALL]),
    ("one_measured_pass", "no slope to go on with", FLAT, 12, [HALF]),
    ("comes_back", "bad rounds, then a probe that goes well", EVEN, 90, [NONE] * 12 + [ALL] * 78),
]


def write(shelf: Shelf) -> None:
    defaults = json.loads(DEFAULTS.read_text(encoding="utf-8"))["draft_length"]
    shelf.vectors("draft_length", "measured", [_case(defaults, *case) for case in CASES])


def _case(
    defaults: dict[str, float],
    name: str,
    why: str,
    costs: Costs,
    rounds: int,
    outcomes: Sequence[tuple[float, float, float]],
) -> dict[str, Any]:
    lengths, records, length = [], [], Lengths(costs, defaults)
    for i in range(rounds):
        drafted = length.next()
        judged, passed, emitted = (int(share * drafted) for share in outcomes[i % len(outcomes)])
        record = (drafted, max(judged, min(1, drafted)), passed, emitted + 1)
        length.record(*record)
        lengths.append(drafted)
        records.append(list(record))
    given = {"costs": {"target": list(costs.target), "draft": costs.draft, "host": costs.host}}
    return vector(name, why, {**given, "records": records}, {"lengths": lengths})
