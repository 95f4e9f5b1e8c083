"""Bytes of an entry of the n-gram cache, on disk and in memory, filled from real answers.

    python -m benchmarks.cache_size [--json]

Llama-2 drafts for Qwen2 (151,936 logits) and Llama-3. A cache learns the reference answers of GSM8K, six
tokens a round. To reach 20,000 entries it then learns more answers, and at last tokens of the map that no
answer contains. An empty cache takes about 0.4 MB of memory. The paper's caches, which are Python objects,
take 225 to 246 bytes an entry (arXiv 2507.02659).
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from benchmarks.support.task_data import DATA, require, rows
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.vocab.cache_file import decode, encode
from omnidraft.runtime.vocab.cache_table import check_against
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.tokenizer import Tokenizer

WIDTHS = {"qwen2": 151_936, "llama3": 128_256}
FULL = 20_000
ROUND = 6  # tokens a round, 5 of them proposed
PAPER = {"GSM8K": (5_569, 246), "20,000": (20_339, 225)}  # entries, bytes an entry


@dataclass(frozen=True)
class Size:
    """One measured cache: bytes an entry; milliseconds to encode it, and to decode it with all checks."""

    target: str
    filled_from: str
    entries: int
    disk: float
    memory: float
    encode_ms: float
    decode_ms: float


def fill(cache: NgramCache, target: Tokenizer, answers: Iterable[str], most: int = 1 << 30) -> None:
    """Learn answers until the cache has `most` entries."""
    for text in answers:
        ids = target.encode(text)
        for start in range(0, len(ids), ROUND):
            if len(cache) >= most:
                return
            cache.learn(ids[start : start + ROUND], ROUND - 1)


def size_of(cache: NgramCache, target: str, filled_from: str) -> Size:
    started = time.perf_counter()
    data = encode(cache.table())
    encoded = time.perf_counter()
    check_against(decode(data), cache.map)
    decoded = time.perf_counter()
    n = len(cache)
    return Size(
        target, filled_from, n, len(data) / n, cache.memory_bytes / n,
        1e3 * (encoded - started), 1e3 * (decoded - encoded),
    )  # fmt: skip


def measure(drafter: Tokenizer, name: str) -> Iterator[Size]:
    """The sizes for one target: after GSM8K, and at 20,000 entries."""
    target = LibraryTokenizer.from_file(DATA / "tokenizers" / name)
    cache = NgramCache(build_vocab_map(drafter, target, target_size=WIDTHS[name]), capacity=FULL)
    fill(cache, target, (row["answer"] for row in rows("gsm8k/train")))
    yield size_of(cache, name, "GSM8K")
    fill(cache, target, (row["output"] for row in rows("alpaca/train")), FULL)
    vocab_map = cache.map
    rest = vocab_map.leaves[vocab_map.leaf_lengths > 1]
    for token in rest[:: max(1, len(rest) // (2 * FULL))].tolist():
        if len(cache) >= FULL:
            break
        cache.learn([token], 0)
    yield size_of(cache, name, "20,000")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    drafter = LibraryTokenizer.from_file(require("tokenizers") / "llama2")
    sizes = [size for name in WIDTHS for size in measure(drafter, name)]
    if options.json:
        print(json.dumps([asdict(size) for size in sizes], indent=2))
        return
    print(
        f"{'target':8} {'filled from':12} {'entries':>8} {'disk':>8} {'memory':>8} {'paper':>8}"
        "   bytes an entry"
    )
    for s in sizes:
        paper = PAPER[s.filled_from][1]
        print(
            f"{s.target:8} {s.filled_from:12} {s.entries:8,} {s.disk:8.1f} {s.memory:8.1f} {paper:8}   "
            f"encoded in {s.encode_ms:.1f} ms, read and checked in {s.decode_ms:.1f} ms"
        )


if __name__ == "__main__":
    main()
