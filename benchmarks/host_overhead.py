"""The cost of a round outside the models: translate, verify, learn and rewind, at real vocabulary sizes.

    python -m benchmarks.host_overhead [--json] [--map FILE]

The Llama-2 tokenizer drafts for the Qwen2 tokenizer (151,936 logits). The models return random rows at no
cost. In the arm "agreeing" the target favours 7 of 10 proposed tokens, so that several rows are verified.

The rows come from SplitMix64 (`normals`), so that a port makes the same rows; `--map` writes the vocabulary
map, which it reads.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from benchmarks.support.task_data import require
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap

TARGET_WIDTH = 151_936
DRAFTED, ROUNDS, WARM = 5, 200, 20
ROWS = 16  # of the pool of a model


def uniforms(seed: int, count: int) -> npt.NDArray[np.float64]:
    """The first answers of `SplitMix64(seed).uniform()`, all at once."""
    steps = np.arange(1, count + 1, dtype=np.uint64)
    z = np.uint64(seed) + steps * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    numbers: npt.NDArray[np.float64] = ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
    return numbers


def normals(seed: int, count: int) -> npt.NDArray[np.float64]:
    """Normal numbers, each of two uniforms in turn (Box and Muller)."""
    radius, angle = uniforms(seed, 2 * count).reshape(count, 2).T
    numbers: npt.NDArray[np.float64] = np.sqrt(-2.0 * np.log1p(-radius)) * np.cos(2.0 * np.pi * angle)
    return numbers


class RandomRows:
    """A model of random logits that costs nothing; it favours a share of the tokens that it verifies."""

    def __init__(self, width: int, agreement: float, spread: float) -> None:
        self.vocab_size, self.max_length, self.length = width, 1 << 30, 0
        self._pool = (normals(0, ROWS * width).reshape(ROWS, width) * spread).astype(np.float32)
        self._likes = uniforms(1, 1 << 16) < agreement
        self._raised: list[tuple[int, int, np.float32]] = []
        self._calls = 0

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        for row, token, value in self._raised:
            self._pool[row, token] = value
        self._calls += 1
        start = self._calls % (len(self._pool) - len(tokens)) if len(tokens) < len(self._pool) else 0
        rows = self._pool[start : start + (num_logits or len(tokens))]
        self._raised = []
        for i, token in enumerate(tokens[1 : len(rows)]):
            if self._likes[(self._calls * 8 + i) % len(self._likes)]:
                self._raised.append((start + i, token, self._pool[start + i, token]))
                rows[i, token] = 30.0
        self.length += len(tokens)
        return rows

    def rewind(self, length: int) -> None:
        self.length = length


def measure(vocab_map: VocabMap, agreement: float, temperature: float, prefilled: bool) -> dict[str, float]:
    """Median milliseconds of each part of a round; the cache is empty, or holds every n-gram."""
    cache = NgramCache(vocab_map)
    if prefilled:
        cache.prefill()
    drafter = Drafter(RandomRows(vocab_map.draft_size, 0.0, 5.0))
    models = DecoderModels(RandomRows(vocab_map.target_size, agreement, 2.0), drafter, cache)
    config = GenerationConfig(1 << 30, temperature, verification="token")
    loop = decode_prompt(models, [1], [1], config, FixedLength(DRAFTED), SplitMix64(0))
    rounds = [next(loop) for _ in range(ROUNDS)][WARM:]

    def median(part: str) -> float:
        return 1e3 * float(statistics.median(getattr(r.seconds, part) for r in rounds))

    def total(r: Round) -> float:
        return float(r.seconds.translate + r.seconds.verify + r.seconds.learn)

    return {
        "translate": median("translate"),
        "verify_and_rewind": median("verify"),
        "learn": median("learn"),
        "host": 1e3 * statistics.median(total(r) for r in rounds),
        "host_worst_tenth": 1e3 * statistics.quantiles([total(r) for r in rounds], n=10)[-1],
        "draft_sampling": median("draft"),
        "emitted": sum(len(r.emitted) for r in rounds) / len(rounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--map", type=Path, help="only write the vocabulary map to this file")
    options = parser.parse_args()
    folder = require("tokenizers")
    drafter = LibraryTokenizer.from_file(folder / "llama2")
    target = LibraryTokenizer.from_file(folder / "qwen2")
    vocab_map = build_vocab_map(drafter, target, target_size=TARGET_WIDTH)
    if options.map:
        save_file(vocab_map.tensors(), options.map, metadata=vocab_map.metadata())
        return
    figures = {
        f"{rows} rows, {temperature_name}, {'full' if prefilled else 'cold'} cache": measure(
            vocab_map, agreement, temperature, prefilled
        )
        for rows, agreement in (("random", 0.0), ("agreeing", 0.7))
        for temperature_name, temperature in (("greedy", 0.0), ("T = 1", 1.0))
        for prefilled in (False, True)
    }
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"milliseconds a round (medians), {DRAFTED} draft tokens, target vocabulary {TARGET_WIDTH:,}")
    parts = list(next(iter(figures.values())))
    print(f"{'':44}" + "".join(f"{part:>19}" for part in parts))
    for name, medians in figures.items():
        print(f"{name:44}" + "".join(f"{medians[part]:19.3f}" for part in parts))


if __name__ == "__main__":
    main()
