"""Against the context: reading, a round and its parts, host work alone, and memory.

starter-a with a context of 8,192 positions reads a text that grows; what it read before is kept, so each
length costs only the reading of what is new. Beyond the 1,024 positions of its training the text makes no
sense, and the work is the same. Host work alone: a synthetic map of 32,768 ids with free models, k = 5.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.growth.axis import Axis, Column, Panel, Row, Settings
from benchmarks.growth.bundles import open_pair
from benchmarks.growth.free_models import FreePair
from benchmarks.growth.host import host_costs, host_fields
from benchmarks.growth.process import held
from benchmarks.growth.rounds import COLUMNS, pass_cost, round_cost, text_ids
from benchmarks.growth.synthetic_map import synthetic_map
from omnidraft.runtime.session.api import Session
from omnidraft.runtime.vocab.ngram_cache import NgramCache

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 7936)  # the last leaves room for the rounds
LONGEST = 8192
IDS, DRAFTED, VERIFIED = 32_768, 5, 5


def points(quick: bool) -> Sequence[Settings]:
    if quick:
        return [{"lengths": [32, 64], "max_length": 256, "ids": 4_000, "draft_ids": 1_000, "rounds": 3}]
    return [{"lengths": list(LENGTHS), "max_length": LONGEST, "ids": IDS, "draft_ids": IDS, "rounds": 24}]


def measure(settings: Settings, work: Path) -> list[Row]:
    """The rows of all lengths; one process, because a text continues the shorter one."""
    session = Session(open_pair(work, max_length=settings["max_length"]))
    before = held()
    ids = text_ids(session, max(settings["lengths"]))
    rows = list[Row]()
    for length in settings["lengths"]:
        cost = round_cost(session, ids[:length], settings["rounds"])
        passes = {f"pass_{n}": pass_cost(session, ids[:n]) for n in (1, VERIFIED)}
        rows.append({"tokens": length, **asdict(cost), **passes, "session": held(before)})
    vocab_map = synthetic_map(settings["ids"], settings["draft_ids"])
    pair, new_cache = FreePair(vocab_map, DRAFTED), partial(NgramCache, vocab_map)
    for row in rows:
        costs = host_costs(pair, new_cache, settings["rounds"], row["tokens"])
        row |= host_fields(costs, "host", "outside") | {"kept": costs["t1"].kept}
    return rows


AXIS = Axis(
    "context",
    "context (tokens)",
    "tokens",
    points,
    measure,
    (
        Column("tokens", "tokens", ",.0f"),
        *COLUMNS,
        Column("pass of 1, ms", "pass_1"),
        Column("pass of 5, ms", "pass_5"),
        Column("reading, ms a token", "read_token"),
        Column("host alone, T = 0, ms", "host_t0", ".3f"),
        Column("all but the models, ms", "outside_t0", ".3f"),
        Column("host alone, T = 1, ms", "host_t1", ".3f"),
        Column("all but the models, ms", "outside_t1", ".3f"),
        Column("session, MB", "session", ".1f"),
        Column("of it lists and arrays, MB", "kept"),
    ),
    (
        Panel(
            "ms a round", {"whole round": "whole", "target": "target", "draft": "draft", "host": "host_t0"}
        ),
        Panel("MB", {"session": "session", "text and copies": "kept"}),
    ),
)
