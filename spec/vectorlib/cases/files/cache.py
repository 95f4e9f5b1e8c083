"""Vectors of `cache/valid`, `cache/load`, `cache/merge` and `cache/learn`."""

from typing import Any

from vectorlib.reference.ngram_cache import (
    CacheEntry,
    CacheTable,
    NgramCache,
    encode,
    eviction_rank,
    merge,
)
from vectorlib.reference.vocab_map import MAPS, TOY
from vectorlib.writer import VectorWriter, vector

HUGE = (1 << 32) - 1
LAST_ID = (1 << 31) - 1


def grams(numbers: dict[str, tuple[int, ...]]) -> dict[int, CacheEntry]:
    """Entries of the toy map: tick, hits and accepted by the name of the target token."""
    return {t: CacheEntry(TOY.spelling(t), *n) for name, n in numbers.items() for t in TOY.t(name)}


# The worked example of spec/06-ngram-cache.md.
EXAMPLE = CacheTable(tick=9, entries={5: CacheEntry((1, 2, 3), 7, 3, 2), 6: CacheEntry((1, 4), 4, 1, 0)})
_WIDE = {
    70_000: CacheEntry(tuple(range(65_530, 65_541)), 70_000, 65_536, 65_536),
    3: CacheEntry((1, 2), 1),
    300: CacheEntry((7, 8, 9), 300),
}
_MANY = {
    t: CacheEntry(tuple((t + i) % 251 for i in range(2 + t % 5)), t % 17, t % 9, t % 2 * (t % 9))
    for t in range(0, 600, 7)
}

# name, why, table, map
VALID: list[tuple[str, str, CacheTable, str | None]] = [
    ("example", "the worked example of spec/06-ngram-cache.md", EXAMPLE, "toy"),
    ("empty", "no entry: 136 bytes", CacheTable(), "toy"),
    ("empty_with_tick", "rounds in which no n-gram was learned", CacheTable(tick=12), "toy"),
    ("prefilled", "entries that were never emitted: the counts are 0 and 1 byte wide",
     CacheTable(entries=grams({"FLAKE": (0,), "FO": (0,), "FLAS": (0,), "LAKE": (0,)})), "toy"),
    ("never_accepted", "hits without a proposal", CacheTable(tick=9, entries=grams({"FLAKE": (7, 5, 0)})),
     "toy"),
    ("always_accepted", "accepted as often as hit", CacheTable(tick=9, entries=grams({"FLAKE": (9, 5, 5)})),
     "toy"),
    ("entry_without_counts", "one of two entries was never emitted", CacheTable(tick=9,
     entries=grams({"FLAKE": (7, 3, 1), "FO": (2,)})), "toy"),
    ("all_of_the_map", "every n-gram of the map, in the order of target ids", CacheTable(tick=20,
     entries=grams({"LAKE": (20, 1, 1), "FLAS": (3, 9, 2), "FO": (4, 2, 0), "FLAKE": (5, 3, 3)})), "toy"),
    ("widths_2", "ids and counts of 256 and more", CacheTable(tick=300,
     entries={256: CacheEntry((1, 256), 256, 256, 0)}), None),
    ("widths_4", "ids, ticks and counts of 65,536 and more", CacheTable(tick=70_000, entries=_WIDE), None),
    ("widths_border", "255 fits in one byte", CacheTable(tick=255,
     entries={255: CacheEntry((255, 255), 255, 255, 0)}), None),
    ("widths_border_2", "65,535 fits in two bytes", CacheTable(tick=65_535,
     entries={65_535: CacheEntry((65_535, 0), 65_535, 65_535, 0)}), None),
    ("largest_numbers", "ids, counts and ticks at their largest values", CacheTable(tick=HUGE,
     entries={LAST_ID: CacheEntry((LAST_ID, 0), HUGE, HUGE, HUGE)}), None),
    ("longest_spelling", "255 draft tokens", CacheTable(entries={9: CacheEntry(tuple(range(255)))}), None),
    ("many", "86 entries", CacheTable(tick=16, entries=_MANY), None),
]  # fmt: skip

_A = CacheTable(tick=9, entries=grams({"FLAKE": (7, 3, 2), "FO": (4, 1, 0)}))
_B = CacheTable(tick=5, entries=grams({"FLAKE": (5, 6, 1), "LAKE": (1, 1, 0)}))
_C = CacheTable(tick=12, entries=grams({"FLAKE": (11, 2, 2), "FO": (1, 4, 4)}))

# Merging in another order, in another grouping or twice writes the same bytes: see `_check_properties`.
MERGES: list[tuple[str, str, CacheTable, CacheTable]] = [
    ("two_devices", "the union of the entries; FLAKE has the tick and accepted of a, the hits of b", _A, _B),
    ("two_devices_turned", "commutative: the same bytes in the other order", _B, _A),
    ("with_itself", "idempotent: a file merged with itself is the file", _A, _A),
    ("with_empty", "an empty cache changes nothing", _A, CacheTable()),
    ("with_empty_of_later_tick", "the tick is a maximum too", _A, CacheTable(tick=40)),
    ("merged_with_part", "a file that was merged before changes nothing", merge(_A, _B), _B),
    ("three_from_the_left", "associative: (a b) c", merge(_A, _B), _C),
    ("three_from_the_right", "associative: a (b c), the same bytes", _A, merge(_B, _C)),
    ("disjoint", "nothing in common", CacheTable(tick=2, entries=grams({"FO": (2, 1, 1)})), CacheTable(tick=8,
     entries=grams({"LAKE": (8, 2, 0)}))),
    ("widths_grow", "the counts of one file need 4 bytes, the ticks of the other 2", CacheTable(tick=9,
     entries=grams({"FO": (3, 70_000, 5)})), CacheTable(tick=300, entries=grams({"FO": (300, 2, 1)}))),
    ("largest_numbers", "counts at their largest value do not grow", CacheTable(tick=HUGE,
     entries=grams({"FO": (HUGE, HUGE, HUGE)})), CacheTable(tick=HUGE, entries=grams({"FO": (1, HUGE, 0)}))),
]  # fmt: skip

# name, why, capacity, rounds of (emitted, accepted), by name
LEARN: list[tuple[str, str, int, list[tuple[str, int]]]] = [
    ("fills", "every emitted token with a spelling of 2 or more is inserted", 9, [("FLAKE S FO", 2),
     ("X", 0)]),
    ("counts", "hits, accepted hits, and the last round", 9, [("FLAKE", 0), ("FLAKE FLAKE",
     1), ("FO", 1)]),
    ("twice_in_a_round", "inserted and hit in the same round", 9, [("LAKE LAKE LAKE", 2)]),
    ("nothing_to_learn", "direct pairs, aliases, control tokens and orphans",
     9, [("S F' <eos> <think> X",
     3)]),
    ("fewest_hits", "the fewest hits go first, even if they are recent", 2,
     [("FLAKE FLAKE", 0), ("FO", 0), ("LAKE", 0)]),
    ("tie", "equal hits: the lowest tick", 2, [("FO", 0), ("FLAKE", 0), ("LAKE", 0)]),
    ("tie_of_ticks", "all equal: the lowest id", 2, [("FO FLAKE", 0), ("LAKE", 0)]),
    ("new_stays", "a new entry is never evicted by its own insertion", 1, [("FLAKE FLAKE", 0),
     ("FO", 0), ("LAKE", 0)]),
    ("evicted_within_a_round", "an entry may be evicted in the round that inserted it",
     1, [("FLAKE FO LAKE", 3)]),
    ("comes_back", "an evicted entry starts again from 0", 1, [("FLAKE FLAKE", 1), ("FO", 0), ("FLAKE",
     0)]),
]  # fmt: skip

_FOUR = CacheTable(
    tick=20,
    entries=grams({"FLAKE": (3, 9, 0), "FO": (9, 2, 2), "FLAS": (9, 2, 0), "LAKE": (12, 2, 1)}),
)
_MOST = (1 << 32) - 1
_FULL = CacheTable(
    tick=_MOST - 1, entries=grams({"FLAKE": (7, _MOST, _MOST), "FO": (8, _MOST - 1, _MOST - 1)})
)
LOAD: list[tuple[str, str, int]] = [
    ("room_for_all", "nothing is cut", 4),
    ("room_for_3", "three have 2 hits: of these the lowest tick, then the lowest id goes", 3),
    ("room_for_2", "then the next id", 2),
    ("room_for_1", "the most hits stay, even with an old tick", 1),
]

_TWO = CacheTable(tick=20, entries=grams({"FLAKE": (20, 9, 0), "FO": (9, 2, 2)}))
# name, why, capacity, rounds behind the prefill
PREFILLED: list[tuple[str, str, int, list[str]]] = [
    ("prefilled", "the n-grams that are missing come in, in the cache's round, with counts of 0", 4, []),
    ("prefilled_room", "the capacity grows to all n-grams, and a learned one stays", 2, ["LAKE"]),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    """Write the vectors of all four folders."""
    _check_properties()
    valid = []
    for name, why, table, map_name in VALID:
        writer.file(f"cache/valid/{name}.bin", encode(table))
        valid.append(vector(name, why, {"file": f"{name}.bin", "map": map_name}, {"table": table.as_json()}))
    writer.vectors("cache/valid", "files", valid)
    writer.file("cache/load/four.bin", encode(_FOUR))
    writer.vectors("cache/load", "capacities", [_load(*case) for case in LOAD])
    writer.file("cache/load/two.bin", encode(_TWO))
    writer.vectors("cache/load", "prefilled", [_prefilled(*case) for case in PREFILLED])
    writer.vectors("cache/merge", "merges", [_merge(writer, *case) for case in MERGES])
    learned = [_learn(*case) for case in LEARN]
    writer.vectors("cache/learn", "rounds", learned)
    writer.file("cache/learn/full.bin", encode(_FULL))
    limits = [
        _learn("counts_stop", "tick, hits and accepted stop at 2^32 - 1", 9,
               [("FLAKE FO", 2), ("FLAKE FO LAKE", 2)], start=_FULL),
        _learn("alias", "an alias of two draft tokens is no leaf of the map", 9,
               [("AB' A", 0)], map_name="long"),
        _learn("pieces_255", "255 draft tokens are an n-gram, 256 are not", 9,
               [("A255 A256 AB", 3)], map_name="long"),
    ]  # fmt: skip
    writer.vectors("cache/learn", "limits", limits)


def _check_properties() -> None:
    """The pairs of cases that must agree do agree."""
    merged = {name: encode(merge(a, b)) for name, _, a, b in MERGES}
    assert merged["two_devices"] == merged["two_devices_turned"] == merged["merged_with_part"]
    assert merged["with_itself"] == merged["with_empty"] == encode(_A)
    assert merged["three_from_the_left"] == merged["three_from_the_right"]


def _merge(writer: VectorWriter, name: str, why: str, a: CacheTable, b: CacheTable) -> dict[str, Any]:
    files = {"a": a, "b": b, "merged": merge(a, b)}
    for part, table in files.items():
        writer.file(f"cache/merge/{name}.{part}.bin", encode(table))
    inputs = {part: f"{name}.{part}.bin" for part in ("a", "b")}
    return vector(name, why, inputs, {"file": f"{name}.merged.bin"})


def _load(name: str, why: str, capacity: int) -> dict[str, Any]:
    """The entries that a session keeps from a file with more entries than its capacity."""
    ranked = sorted(_FOUR.entries, key=lambda t: eviction_rank(t, _FOUR.entries[t]))
    inputs = {"file": "four.bin", "map": "toy", "capacity": capacity}
    return vector(name, why, inputs, {"targets": sorted(ranked[-capacity:])})


def _prefilled(name: str, why: str, capacity: int, rounds: list[str]) -> dict[str, Any]:
    """The entries of a session that reads a file, asks for `prefilled`, and learns."""
    cache = NgramCache(TOY, capacity)
    cache.tick, cache.entries = _TWO.tick, dict(_TWO.entries)
    cache.prefill()
    for names in rounds:
        cache.learn(TOY.t(names), 0)
    inputs = {
        "file": "two.bin", "map": "toy", "capacity": capacity, "prefilled": True,
        "rounds": [{"emitted": TOY.t(names), "accepted": 0} for names in rounds],
    }  # fmt: skip
    return vector(name, why, inputs, {"targets": sorted(cache.entries), "entries": _entries(cache)})


def _entries(cache: NgramCache) -> list[dict[str, int]]:
    return [
        {"target_id": t, "hits": entry.hits, "accepted": entry.accepted, "tick": entry.tick}
        for t, entry in sorted(cache.entries.items())
    ]


def _learn(name: str, why: str, capacity: int, rounds: list[tuple[str, int]], *,
           map_name: str = "toy", start: CacheTable | None = None) -> dict[str, Any]:  # fmt: skip
    vocab_map = MAPS[map_name]
    cache = NgramCache(vocab_map, capacity)
    if start is not None:
        cache.tick, cache.entries = start.tick, dict(start.entries)
    ids = [(vocab_map.t(emitted), accepted) for emitted, accepted in rounds]
    new = [cache.learn(emitted, accepted) for emitted, accepted in ids]
    inputs = {
        "map": map_name,
        "start": None if start is None else "full.bin",
        "capacity": capacity,
        "rounds": [{"emitted": emitted, "accepted": accepted} for emitted, accepted in ids],
    }
    return vector(name, why, inputs, {"new": new, "entries": _entries(cache)})
