"""Against the target's vocabulary: host work of a round, the whole round with a model, map, cache, process.

Host work is measured on synthetic maps with free models, k = 5; the whole round and the memory of the process
on a random target of 2 layers, 64 wide, with the starter drafter, k = 4.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.growth.axis import Axis, Column, Panel, Row, Settings
from benchmarks.growth.bundles import random_target
from benchmarks.growth.host import FreePair, host_cost
from benchmarks.growth.rounds import round_cost, text_ids
from benchmarks.growth.synthetic_map import DRAFT_SIZE, map_bytes, synthetic_map
from benchmarks.soak import resident
from omnidraft.runtime.session.api import Session
from omnidraft.runtime.vocab.ngram_cache import NgramCache

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
    pair = FreePair(size, settings["draft_ids"], DRAFTED)
    row: Row = {"ids": size, **whole}
    for temperature in (0.0, 1.0):
        for state in ("cold", "full"):
            cache = NgramCache(vocab_map)
            if state == "full":
                cache.prefill()
            cost = host_cost(pair, cache, temperature, rounds)
            row[f"host_{state}_t{temperature:.0f}"] = cost.host
            row[f"outside_{state}_t{temperature:.0f}"] = cost.outside
            row[f"peak_{state}_t{temperature:.0f}"] = cost.peak_megabytes
            row[f"cache_{state}"] = cache.memory_bytes / 1e6
    return [row | {"map": map_bytes(vocab_map) / 1e6}]


def _whole_round(work: Path, size: int, rounds: int) -> Row:
    """A round with models, and the memory that the process holds more after it."""
    loaded = random_target(work, size)
    before = resident()
    session = Session(loaded)
    cost = round_cost(session, text_ids(session, PROMPT), rounds // 2)
    return {
        "round": cost.whole,
        "target": cost.target,
        "round_host": cost.host,
        "session": (resident() - before) / 1e6,
        "process": resident() / 1e6,
    }


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
