"""Vectors of `cache/valid`, `cache/merge` and `cache/learn`: good files, two of them together, eviction."""

from typing import Any

from vectorlib.memory import Memory, Table, encode, merge
from vectorlib.reference.vocab_map import MAPS, TOY
from vectorlib.writer import VectorWriter, vector

MINE, YOURS = 0x0000019A00000001, 0x0000019A00000002
HUGE = (1 << 32) - 1


def grams(ticks: dict[str, int]) -> dict[int, tuple[tuple[int, ...], int]]:
    """Entries of the toy map, by name, with their ticks."""
    return {t: (TOY.spelling(t), tick) for name, tick in ticks.items() for t in TOY.t(name)}


def counts(given: dict[str, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Hits and accepted of entries of the toy map, by name."""
    return {TOY.t(name)[0]: pair for name, pair in given.items()}


FLAKE = grams({"FLAKE": 7})
EXAMPLE = Table(  # the worked example of spec/ngram-cache.md
    writer=MINE,
    tick=9,
    entries={5: ((1, 2, 3), 7), 6: ((1, 4), 4)},
    counts={MINE: {5: (3, 2), 6: (1, 0)}},
)
_WIDE = {70_000: (tuple(range(65_530, 65_541)), 70_000), 3: ((1, 2), 1), 300: ((7, 8, 9), 300)}
_MANY = {t: (tuple((t + i) % 251 for i in range(2 + t % 5)), t % 17) for t in range(0, 600, 7)}

VALID: list[tuple[str, str, Table, str | None]] = [
    ("example", "the worked example of spec/ngram-cache.md", EXAMPLE, "toy"),
    ("empty", "no entry, no replica: 156 bytes", Table(), "toy"),
    ("empty_with_tick", "rounds that taught nothing", Table(writer=MINE, tick=12), "toy"),
    ("prefilled", "entries that nobody counted: no replica", Table(entries=grams({"FLAKE": 0, "FO": 0,
     "FLAS": 0, "LAKE": 0})), "toy"),
    ("writer_0", "two devices' caches, merged: nobody goes on counting", Table(tick=9, entries=FLAKE,
     counts={MINE: {5: (3, 1)}, YOURS: {5: (2, 2)}}), "toy"),
    ("writer_without_counts", "the writer has not counted yet", Table(writer=YOURS, tick=9, entries=FLAKE,
     counts={MINE: {5: (3, 1)}}), "toy"),
    ("entry_without_counts", "one of two entries was never hit", Table(writer=MINE, tick=9,
     entries=grams({"FLAKE": 7, "FO": 2}), counts={MINE: {5: (3, 1)}}), "toy"),
    ("widths_2", "ids and counts of 256 and more", Table(writer=MINE, tick=300, entries={256: ((1, 256),
     256)}, counts={MINE: {256: (256, 0)}}), None),
    ("widths_4", "ids, ticks and counts of 65,536 and more", Table(writer=MINE, tick=70_000, entries=_WIDE,
     counts={MINE: {70_000: (65_536, 65_536)}}), None),
    ("widths_border", "255 fits one byte", Table(writer=MINE, tick=255, entries={255: ((255, 255), 255)},
     counts={MINE: {255: (255, 255)}}), None),
    ("widths_border_2", "65,535 fits two", Table(writer=MINE, tick=65_535, entries={65_535: ((65_535, 0),
     65_535)}, counts={MINE: {65_535: (65_535, 0)}}), None),
    ("largest_numbers", "counts, tick and replica stop at their last bit", Table(writer=(1 << 64) - 1,
     tick=HUGE, entries={(1 << 31) - 1: (((1 << 31) - 1, 0), HUGE)},
     counts={(1 << 64) - 1: {(1 << 31) - 1: (HUGE, HUGE)}}), None),
    ("longest_spelling", "255 draft tokens", Table(entries={9: (tuple(range(255)), 0)}), None),
    ("sixteen_replicas", "as many as a file may have", Table(tick=20, entries=FLAKE, counts={r: {5: (r,
     1)} for r in range(1, 17)}), "toy"),
    ("many", "86 entries", Table(writer=YOURS, tick=16, entries=_MANY, counts={YOURS: {t: (t % 9,
     t % 2 * (t % 9)) for t in _MANY}}), None),
]  # fmt: skip

_A = Table(writer=MINE, tick=9, entries=grams({"FLAKE": 7, "FO": 4}), counts={MINE: {5: (3, 2), 6: (1, 0)}})
_B = Table(
    writer=YOURS, tick=5, entries=grams({"FLAKE": 5, "LAKE": 1}), counts={YOURS: {5: (2, 2), 9: (1, 0)}}
)
_LATER = Table(
    writer=MINE, tick=12, entries=grams({"FLAKE": 11, "FO": 4}), counts={MINE: {5: (6, 4), 6: (1, 0)}}
)
_MANY_A = Table(tick=9, entries=FLAKE, counts={r: {5: (r, 0)} for r in range(1, 13)})
_MANY_B = Table(tick=9, entries=FLAKE, counts={r: {5: (r, 0)} for r in range(9, 25)})

MERGES: list[tuple[str, str, Table, Table]] = [
    ("two_devices", "union of entries, each replica keeps its counts, nobody is the writer", _A, _B),
    ("two_devices_turned", "the order is of no account", _B, _A),
    ("with_itself", "merging a file with itself gives the file", _A, _A),
    ("earlier_and_later", "of one replica the larger counts, its writer stays", _A, _LATER),
    ("with_empty", "an empty cache adds nothing but takes the writer", _A, Table()),
    ("empty_of_same_writer", "an empty cache of the same device", _A, Table(writer=MINE)),
    ("too_many_replicas", "of 24 replicas the 16 with the highest ids; entries stay", _MANY_A, _MANY_B),
    ("merged_with_part", "what was merged before changes nothing", merge(_A, _B), _B),
]

# name, why, capacity, policy, rounds of (emitted, accepted), by name
LEARN: list[tuple[str, str, int, str, list[tuple[str, int]]]] = [
    ("fills", "every emitted token with a spelling of 2 or more is inserted", 9, "lfu", [("FLAKE S FO", 2),
     ("X", 0)]),
    ("counts", "hits, accepted ones among them, and the last round", 9, "lfu", [("FLAKE", 0), ("FLAKE FLAKE",
     1), ("FO", 1)]),
    ("twice_in_a_round", "inserted and hit in the same round", 9, "lru", [("LAKE LAKE LAKE", 2)]),
    ("nothing_to_learn", "direct pairs, aliases, controls and orphans", 9, "lfu", [("S F' <eos> <think> X",
     3)]),
    ("lfu", "the fewest hits go first, however lately", 2, "lfu",
     [("FLAKE FLAKE", 0), ("FO", 0), ("LAKE", 0)]),
    ("lfu_tie", "equal hits: the longest unused", 2, "lfu", [("FO", 0), ("FLAKE", 0), ("LAKE", 0)]),
    ("lfu_tie_of_ticks", "all equal: the lowest id", 2, "lfu", [("FO FLAKE", 0), ("LAKE", 0)]),
    ("lru", "the longest unused goes first, however often it was hit", 2, "lru", [("FLAKE FLAKE", 0), ("FO",
     0), ("LAKE", 0)]),
    ("lru_tie", "of the same round: the fewest hits", 2, "lru", [("FLAKE FLAKE FO", 0), ("LAKE", 0)]),
    ("new_stays", "what is inserted is never the one to go", 1, "lfu", [("FLAKE FLAKE", 0), ("FO", 0),
     ("LAKE", 0)]),
    ("evicted_within_a_round", "a token of the same round may go again", 1, "lru", [("FLAKE FO LAKE", 3)]),
    ("comes_back", "an evicted entry starts anew", 1, "lfu", [("FLAKE FLAKE", 1), ("FO", 0), ("FLAKE", 0)]),
]  # fmt: skip

_FOUR = Table(
    writer=MINE,
    tick=20,
    entries=grams({"FLAKE": 3, "FO": 9, "FLAS": 9, "LAKE": 12}),
    counts={
        MINE: counts({"FLAKE": (9, 0), "FO": (2, 2), "FLAS": (2, 0), "LAKE": (1, 0)}),
        YOURS: counts({"LAKE": (1, 1)}),
    },
)
LOAD: list[tuple[str, str, int, str]] = [
    ("room_for_all", "nothing is cut", 4, "lfu"),
    (
        "lfu_3",
        "hits of all replicas: three have 2, of these the oldest tick, then the lowest id goes",
        3,
        "lfu",
    ),
    ("lfu_2", "then the next id", 2, "lfu"),
    ("lfu_1", "the most hits stay, however old", 1, "lfu"),
    ("lru_3", "the oldest tick goes", 3, "lru"),
    ("lru_2", "of equal ticks and hits the lowest id", 2, "lru"),
    ("lru_1", "the latest stays, however few its hits", 1, "lru"),
]


def write(writer: VectorWriter) -> None:
    found = []
    for name, why, table, map_name in VALID:
        writer.file(f"cache/valid/{name}.bin", encode(table))
        given = {"file": f"{name}.bin", "map": map_name}
        found.append(vector(name, why, given, {"table": table.canonical().as_json()}))
    writer.vectors("cache/valid", "files", found)
    writer.file("cache/load/four.bin", encode(_FOUR))
    writer.vectors("cache/load", "capacities", [_load(*case) for case in LOAD])
    writer.vectors("cache/merge", "merges", [_merge(writer, *case) for case in MERGES])
    writer.vectors("cache/learn", "rounds", [_learn(*case) for case in LEARN])


def _merge(writer: VectorWriter, name: str, why: str, a: Table, b: Table) -> dict[str, Any]:
    files = {"a": a, "b": b, "merged": merge(a, b)}
    for part, table in files.items():
        writer.file(f"cache/merge/{name}.{part}.bin", encode(table))
    given = {part: f"{name}.{part}.bin" for part in ("a", "b")}
    return vector(name, why, given, {"file": f"{name}.merged.bin"})


def _load(name: str, why: str, capacity: int, policy: str) -> dict[str, Any]:
    """What a session keeps of a file that is too large for it."""
    ranked = []
    for t, (_, tick) in _FOUR.entries.items():
        hits = sum(pairs.get(t, (0, 0))[0] for pairs in _FOUR.counts.values())
        ranked.append((hits, tick, t) if policy == "lfu" else (tick, hits, t))
    kept = sorted(t for _, _, t in sorted(ranked)[-capacity:])
    given = {"file": "four.bin", "map": "toy", "capacity": capacity, "policy": policy}
    return vector(name, why, given, {"targets": kept})


def _learn(name: str, why: str, capacity: int, policy: str, rounds: list[tuple[str, int]]) -> dict[str, Any]:
    words, given = MAPS["toy"], []
    memory = Memory(words, capacity, policy)
    new = []
    for emitted, accepted in rounds:
        given.append({"emitted": words.t(emitted), "accepted": accepted})
        new.append(memory.learn(words.t(emitted), accepted))
    entries = [
        {"target_id": t, "hits": hits, "accepted": accepted, "tick": tick}
        for t, (hits, accepted, tick) in sorted(memory.entries.items())
    ]
    inputs = {"map": "toy", "capacity": capacity, "policy": policy, "rounds": given}
    return vector(name, why, inputs, {"new": new, "entries": entries})
