"""Against k, the draft tokens of a round: a round of starter-a and its parts, host work alone, memory.

The whole round: starter-a with its untrained drafter, greedy, on a text of word problems. Host work alone: a
synthetic map of 131,072 ids with free models.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.growth.axis import Axis, Column, Panel, Row, Settings
from benchmarks.growth.bundles import open_pair
from benchmarks.growth.free_models import FreePair
from benchmarks.growth.host import host_costs, host_fields
from benchmarks.growth.rounds import COLUMNS, pass_cost, round_cost, text_ids
from benchmarks.growth.synthetic_map import DRAFT_SIZE, synthetic_map
from omnidraft.runtime.session.api import Session
from omnidraft.runtime.vocab.ngram_cache import NgramCache

LENGTHS = (1, 2, 4, 6, 8, 12, 16)
IDS, PROMPT = 131_072, 128


def points(quick: bool) -> Sequence[Settings]:
    if quick:
        return [{"k": [1, 16], "ids": 4_000, "draft_ids": 1_000, "rounds": 3}]
    return [{"k": list(LENGTHS), "ids": IDS, "draft_ids": DRAFT_SIZE, "rounds": 40}]


def measure(settings: Settings, work: Path) -> list[Row]:
    """The rows of all k; one process, so that what differs is k alone."""
    session = Session(open_pair(work))
    ids = text_ids(session, PROMPT)
    rows = [
        {"k": k, **asdict(round_cost(session, ids, settings["rounds"], num_draft_tokens=k))}
        | {"pass": pass_cost(session, ids[: k + 1])}
        for k in settings["k"]
    ]
    vocab_map = synthetic_map(settings["ids"], settings["draft_ids"])
    for row in rows:
        pair = FreePair(vocab_map, row["k"])
        costs = host_costs(pair, partial(NgramCache, vocab_map), settings["rounds"])
        row |= host_fields(costs, "host", "outside", "peak", "emitted")
        row["rows"] = (row["k"] + 1) * settings["ids"] * 4 / 1e6
    return rows


AXIS = Axis(
    "k",
    "draft tokens a round (k)",
    "k",
    points,
    measure,
    (
        Column("k", "k", ".0f"),
        *COLUMNS,
        Column("pass of k + 1, ms", "pass"),
        Column("tokens a round", "emitted"),
        Column("host alone, T = 0, ms", "host_t0"),
        Column("host alone, T = 1, ms", "host_t1"),
        Column("all but the models, ms", "outside_t1"),
        Column("tokens a round there", "emitted_t1"),
        Column("arrays of the rounds, T = 1, MB", "peak_t1", ".1f"),
        Column("logits of k + 1 rows, MB", "rows", ".1f"),
    ),
    (
        Panel(
            "ms a round",
            {
                "whole round": "whole",
                "target": "target",
                "draft": "draft",
                "host, 131,072 ids, T = 1": "host_t1",
            },
        ),
        Panel("MB", {"logits": "rows", "a round, T = 1": "peak_t1"}),
    ),
)
