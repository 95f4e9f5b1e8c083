"""Against the n-grams in the cache: find, learn, evict, save, load, bytes, and the host work of a round.

Synthetic n-grams of a target vocabulary of 1.2 million ids, so that one map has a million of them; and real
ones where OMNIDRAFT_DATA names a folder of tokenizers and tasks: Llama-2's spellings of Qwen2's tokens, in
the order in which the answers of GSM8K teach them, and then in the order of ids.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.cache_size import ROUND, WIDTHS, fill
from benchmarks.growth.axis import Axis, Column, Panel, Row, Settings
from benchmarks.growth.free_models import FreePair
from benchmarks.growth.host import host_costs, host_fields
from benchmarks.growth.synthetic_map import DRAFT_SIZE, cache_of, ngrams_of, synthetic_map
from benchmarks.support.task_data import DATA
from benchmarks.support.task_data import rows as task_rows
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.decoding.speculate import MAX_PROPOSED
from omnidraft.runtime.vocab.cache_store import open_cache, write_cache
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import Ids, VocabMap

ENTRIES = (1_000, 10_000, 32_768, 100_000, 300_000, 1_000_000)  # 32,768 is the usual capacity
REAL_ENTRIES = (1_000, 5_000, 32_768, 100_000)
IDS = 1_200_000
ROOM = 4_000  # for what the timed rounds learn, so that nothing is evicted
SYNTHETIC, REAL = "synthetic", "Llama-2 for Qwen2"


def points(quick: bool) -> Sequence[Settings]:
    if quick:
        return [_settings(SYNTHETIC, (50, 500), 3_000, 500, 3)]
    synthetic = _settings(SYNTHETIC, ENTRIES, IDS, DRAFT_SIZE, 16)
    real = _settings(REAL, REAL_ENTRIES, WIDTHS["qwen2"], DRAFT_SIZE, 16)
    return [synthetic, real] if (DATA / "tokenizers").is_dir() else [synthetic]


def _settings(source: str, entries: Sequence[int], ids: int, draft_ids: int, rounds: int) -> Settings:
    return {"source": source, "entries": list(entries), "ids": ids, "draft_ids": draft_ids, "rounds": rounds}


def measure(settings: Settings, work: Path) -> list[Row]:
    rows: int | None = None
    if settings["source"] == SYNTHETIC:
        vocab_map = synthetic_map(settings["ids"], settings["draft_ids"])
        order = np.random.default_rng(0).permutation(ngrams_of(vocab_map))
    else:
        (vocab_map, order), rows = _real(), MAX_PROPOSED + 1
    pair = FreePair(vocab_map, ROUND - 1, rows)
    return [
        {"source": settings["source"], **_row(vocab_map, order, entries, pair, settings["rounds"])}
        for entries in settings["entries"]
    ]


def _real() -> tuple[VocabMap, Ids]:
    """The map of two real tokenizers, and its n-grams in the order in which answers teach them."""
    drafter, target = (LibraryTokenizer.from_file(DATA / "tokenizers" / name) for name in ("llama2", "qwen2"))
    vocab_map = build_vocab_map(drafter, target, target_size=WIDTHS["qwen2"])
    learned, order = NgramCache(vocab_map), dict[int, None]()
    fill(learned, target, (row["answer"] for row in task_rows("gsm8k/train")))
    order |= dict.fromkeys(e.target_id for e in sorted(learned.entries(), key=lambda e: -e.hits))
    order |= dict.fromkeys(np.sort(ngrams_of(vocab_map)).tolist())
    return vocab_map, np.array(list(order), dtype=np.int32)


def _row(vocab_map: VocabMap, order: Ids, entries: int, pair: FreePair, rounds: int) -> Row:
    count = min(300, entries // 4, len(order) - entries)
    known, new = order[:entries].tolist(), order[entries : entries + count].tolist()
    cache = cache_of(vocab_map, known)
    asked = np.random.default_rng(1).choice(order, size=2_000).tolist()
    row: Row = {
        "entries": len(cache),
        "memory": cache.memory_bytes / 1e6,
        "find": _microseconds(lambda: sum(token in cache for token in asked), len(asked)),
        "learn_known": _microseconds(lambda: cache.learn(known[-count:], 0), count),
    }
    row |= _files(cache)
    row |= host_fields(host_costs(pair, partial(cache_of, vocab_map, known, ROOM), rounds), "host")
    roomy, full = cache_of(vocab_map, known, 2 * count), cache_of(vocab_map, known)
    row["learn_new"] = _microseconds(lambda: roomy.learn(new, 0), count)
    row["evict"] = _microseconds(lambda: full.learn(new, 0), count)
    assert len(roomy) == entries + count and len(full) == entries
    return row


def _files(cache: NgramCache) -> Row:
    """Milliseconds to save the cache and to load it with all checks, and megabytes on disk."""
    with TemporaryDirectory() as place:
        file = Path(place) / "ngrams.odc"
        save = _microseconds(lambda: write_cache(file, cache), 1e3)
        load = _microseconds(lambda: open_cache(file, cache.map, capacity=cache.capacity), 1e3)
        loaded, refused = open_cache(file, cache.map, capacity=cache.capacity)
        assert refused is None and len(loaded) == len(cache), refused
        return {"save": save, "load": load, "disk": file.stat().st_size / 1e6}


def _microseconds(work: Callable[[], object], count: float) -> float:
    """CPU time of some work, in microseconds for each of its repetitions."""
    started = time.thread_time()
    work()
    return 1e6 * (time.thread_time() - started) / count


AXIS = Axis(
    "cache",
    "n-grams in the cache",
    "entries",
    points,
    measure,
    (
        Column("n-grams", "entries", ",.0f"),
        Column("find, µs", "find"),
        Column("learn a known one, µs", "learn_known"),
        Column("a new one, µs", "learn_new", ".1f"),
        Column("a new one, full cache, µs", "evict", ".1f"),
        Column("save, ms", "save", ".1f"),
        Column("load, ms", "load", ".1f"),
        Column("disk, MB", "disk", ".3f"),
        Column("memory, MB", "memory", ".3f"),
        Column("host, T = 0, ms", "host_t0"),
        Column("host, T = 1, ms", "host_t1"),
    ),
    (
        Panel(
            "µs (n-gram), ms (file)",
            {
                "learn a new one, µs": "learn_new",
                "full cache, µs": "evict",
                "find, µs": "find",
                "load, ms": "load",
                "save, ms": "save",
            },
        ),
        Panel("MB", {"memory": "memory", "disk": "disk"}),
    ),
    series="source",
)
