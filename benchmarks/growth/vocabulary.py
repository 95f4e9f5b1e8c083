"""Against the target's vocabulary: host work of a round, the whole round with a model, map, cache, process.

Host work is measured on synthetic maps with free models, k = 5; the whole round and the memory of the process
on a random target of 2 layers, 64 wide, with the starter drafter, k = 4.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.growth.axis import Axis, Column, Panel, Row, Settings
from benchmarks.growth.bundles import open_pair
from benchmarks.growth.free_models import FreePair
from benchmarks.growth.host import host_costs, host_fields
from benchmarks.growth.process import held
from benchmarks.growth.rounds import round_cost, text_ids
from benchmarks.growth.synthetic_map import DRAFT_SIZE, full_cache, synthetic_map
from omnidraft.runtime.session.api import Session
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import Ragged, VocabMap

SIZES = (8_192, 16_384, 32_768, 65_536, 131_072, 262_144)
DRAFTED, PROMPT = 5, 64


def points(quick: bool) -> Sequence[Settings]:
    if quick:
        return [{"ids": 8_192, "draft_ids": 2_000, "rounds": 4}]
    return [{"ids": size, "draft_ids": DRAFT_SIZE, "rounds": 40} for size in SIZES]


def measure(settings: Settings, work: Path) -> list[Row]:
    size, rounds = settings["ids"], settings["rounds"]
    whole = _whole_round(work, size, rounds)
    vocab_map = synthetic_map(size, settings["draft_ids"])
    pair = FreePair(vocab_map, DRAFTED)
    row: Row = {"ids": size, **whole}
    states: dict[str, Callable[[VocabMap], NgramCache]] = {"cold": NgramCache, "full": full_cache}
    for state, new_cache in states.items():
        costs = host_costs(pair, partial(new_cache, vocab_map), rounds)
        by_state = {f"{state}_{end}": cost for end, cost in costs.items()}
        row |= host_fields(by_state, "host", "outside", "peak") | {f"cache_{state}": costs["t1"].cache}
    return [row | {"map": map_bytes(vocab_map) / 1e6}]


def _whole_round(work: Path, size: int, rounds: int) -> Row:
    """A round with models, and the memory that the process holds more after it."""
    loaded = open_pair(work, vocab_size=size)
    before = held()
    session = Session(loaded)
    cost = round_cost(session, text_ids(session, PROMPT), rounds // 2)
    return {
        "round": cost.whole,
        "target": cost.target,
        "round_host": cost.host,
        "session": held(before),
        "process": held(),
    }


def map_bytes(vocab_map: VocabMap) -> int:
    """Bytes of the arrays of a map, those included that were derived on first use."""
    arrays = list[npt.NDArray[np.generic]]()
    for value in vars(vocab_map).values():
        parts = (
            vars(value).values()
            if isinstance(value, Ragged)
            else value
            if isinstance(value, tuple)
            else [value]
        )
        arrays += [part for part in parts if isinstance(part, np.ndarray)]
    return sum(array.nbytes for array in arrays)


AXIS = Axis(
    "vocabulary",
    "target vocabulary (ids)",
    "ids",
    points,
    measure,
    (
        Column("ids", "ids", ",.0f"),
        Column("host, T = 0, no n-grams, ms", "host_cold_t0"),
        Column("all n-grams", "host_full_t0"),
        Column("host, T = 1, no n-grams, ms", "host_cold_t1"),
        Column("all n-grams", "host_full_t1"),
        Column("all but the models, ms", "outside_full_t1"),
        Column("arrays of the rounds, T = 1, MB", "peak_full_t1", ".1f"),
        Column("map, MB", "map", ".1f"),
        Column("cache, all n-grams, MB", "cache_full", ".1f"),
        Column("round with a model, ms", "round"),
        Column("of it target", "target"),
        Column("a session more, MB", "session", ".1f"),
        Column("process, MB", "process", ".0f"),
    ),
    (
        Panel(
            "ms a round",
            {
                "host, T = 0": "host_full_t0",
                "host, T = 1": "host_full_t1",
                "with a random model": "round",
            },
        ),
        Panel(
            "MB",
            {
                "map": "map",
                "all n-grams": "cache_full",
                "a round, T = 1": "peak_full_t1",
                "a session": "session",
            },
        ),
    ),
)
