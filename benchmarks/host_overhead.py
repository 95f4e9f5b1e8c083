"""The cost of a round outside the models: translate, verify, learn and rewind, at real vocabulary sizes.

    python -m benchmarks.host_overhead [--json] [--trace] [--profile] [--map FILE]

The Llama-2 tokenizer drafts for the Qwen2 tokenizer (151,936 logits). The models return random rows at no
cost. In the arm "agreeing" the target favours 7 of 10 proposed tokens, so that several rows are verified.

`--profile` prints where the time of the agreeing rows goes, as tables: the time of each function of the
host's work, with the cost of profiling, and of one pass of numpy over a row.

The rows come from SplitMix64 (`normals`), so that a port makes the same rows; `--map` writes the vocabulary
map, which it reads.
"""

import argparse
import cProfile
import json
import pstats
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from benchmarks.support.task_data import require
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Draft, Drafter
from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.decoding.proposer import Outcome, Proposer
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import TargetProbs
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.modes import Verification
from omnidraft.runtime.traces.tracer import Tracer
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


class TracedSeconds:
    """A recorder that keeps nothing but the seconds that each round took to trace."""

    def __init__(self, tracer: Tracer, clock: Callable[[], float]) -> None:
        self._tracer, self._clock = tracer, clock
        self.seconds: list[float] = []

    def __call__(self, proposer: Proposer, outcome: Outcome, probs: TargetProbs) -> None:
        started = self._clock()
        self._tracer(proposer, outcome, probs)
        self.seconds.append(self._clock() - started)


def models_of(
    vocab_map: VocabMap, agreement: float, prefilled: bool, drafter: Drafter, clock: Callable[[], float]
) -> DecoderModels:
    """The drafter, a target of random rows, and a cache that is empty or holds every n-gram."""
    cache = NgramCache(vocab_map)
    if prefilled:
        cache.prefill()
    return DecoderModels(RandomRows(vocab_map.target_size, agreement, 2.0), drafter, cache, clock)


def measure(
    vocab_map: VocabMap,
    agreement: float,
    temperature: float,
    prefilled: bool,
    verification: Verification = "token",
    clock: Callable[[], float] = time.perf_counter,
    trace: bool = False,
) -> dict[str, float]:
    """Median milliseconds of each part of a round."""
    drafter = Drafter(RandomRows(vocab_map.draft_size, 0.0, 5.0))
    models = models_of(vocab_map, agreement, prefilled, drafter, clock)
    config = GenerationConfig(1 << 30, temperature, verification=verification)
    traced = TracedSeconds(Tracer(vocab_map), clock) if trace else None
    loop = decode_prompt(models, [1], [1], config, FixedLength(DRAFTED), SplitMix64(0), (), traced)
    rounds = [next(loop) for _ in range(ROUNDS)][WARM:]
    tracing = traced.seconds[WARM:] if traced else [0.0]

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
        "trace": 1e3 * statistics.median(tracing),
        "trace_a_token": 1e3 * sum(tracing) / sum(len(r.emitted) for r in rounds),
        "emitted": sum(len(r.emitted) for r in rounds) / len(rounds),
    }


class UnprofiledDrafter(Drafter):
    """A drafter whose drafts are no part of a profile: they are no host work."""

    def __init__(self, model: RandomRows, profiler: cProfile.Profile) -> None:
        super().__init__(model)
        self._profiler = profiler

    def propose(self, *arguments: Any) -> Draft:
        self._profiler.disable()
        try:
            return super().propose(*arguments)
        finally:
            self._profiler.enable()


def profiled(vocab_map: VocabMap, temperature: float) -> Iterator[tuple[str, float, float]]:
    """Functions of the host's work with agreeing rows, by falling time: name, calls and microseconds a round.

    The time is that of a function without the functions that it calls, the median of groups of 10 rounds. A
    function of numpy that Python does not see as a call, such as exp, is in the time of its caller.
    """
    profiler = cProfile.Profile()
    drafter = UnprofiledDrafter(RandomRows(vocab_map.draft_size, 0.0, 5.0), profiler)
    models = models_of(vocab_map, 0.7, False, drafter, lambda: 0.0)
    config = GenerationConfig(1 << 30, temperature)
    loop = decode_prompt(models, [1], [1], config, FixedLength(DRAFTED), SplitMix64(0))
    groups, group = ROUNDS // 10, 10
    calls: dict[str, int] = {}
    seconds: dict[str, list[float]] = {}
    for number in range(groups + WARM // group):
        profiler.clear()
        for _ in range(group):
            next(loop)
        profiler.disable()
        entries: dict[tuple[str, int, str], tuple[int, int, float]] = vars(pstats.Stats(profiler))["stats"]
        for (file, _, name), (_, count, own, *_) in entries.items() if number >= WARM // group else ():
            key = name.strip("<>") if file == "~" else f"{Path(file).stem}.{name}"
            if Path(file).name != Path(__file__).name:
                calls[key] = calls.get(key, 0) + count
                seconds.setdefault(key, [0.0] * groups)[number - WARM // group] += own
    microseconds = {key: 1e6 * statistics.median(own) / group for key, own in seconds.items()}
    for key in sorted(calls, key=lambda key: -microseconds[key]):
        yield key, calls[key] / (groups * group), microseconds[key]


def passes() -> Iterator[tuple[str, float]]:
    """Microseconds on the processor of passes of numpy over a float32 row of the target's width (medians)."""
    row = (2.0 * normals(0, TARGET_WIDTH)).astype(np.float32)
    out, near, wide = np.empty_like(row), np.empty(TARGET_WIDTH, np.bool_), row.astype(np.float64)
    blocks = row[: TARGET_WIDTH - TARGET_WIDTH % 512].reshape(-1, 512)
    kinds: dict[str, Callable[[], object]] = {
        "argmax": row.argmax,
        "subtract": lambda: np.subtract(row, 1.0, out=out),
        "exp": lambda: np.exp(row, out=out),
        "exp in float64": lambda: np.exp(wide),
        "block sums": lambda: np.einsum("ij->i", blocks),
        "greater_equal": lambda: np.greater_equal(row, 1.0, out=near),
        "count_nonzero": lambda: np.count_nonzero(near),
    }
    for name, run in kinds.items():
        seconds = []
        for _ in range(100):
            started = time.thread_time()
            run()
            seconds.append(time.thread_time() - started)
        yield name, 1e6 * statistics.median(seconds)


def print_profile(vocab_map: VocabMap) -> None:
    """Both tables in Markdown."""
    for temperature in (0.0, 1.0):
        print(f"\n| T = {temperature:g}, agreeing rows | calls a round | us a round |\n|---|---|---|")
        rows = list(profiled(vocab_map, temperature))
        for name, calls, microseconds in rows[:12]:
            print(f"| `{name}` | {calls:.1f} | {microseconds:.0f} |")
        print(f"| all {len(rows)} functions | | {sum(each[2] for each in rows):.0f} |")
    print(f"\n| one pass over {TARGET_WIDTH:,} float32 | us |\n|---|---|")
    for name, microseconds in passes():
        print(f"| {name} | {microseconds:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--trace", action="store_true", help="also make the trace records of each round")
    parser.add_argument(
        "--profile", action="store_true", help="print where the time goes, and what a pass costs"
    )
    parser.add_argument("--map", type=Path, help="only write the vocabulary map to this file")
    options = parser.parse_args()
    folder = require("tokenizers")
    drafter = LibraryTokenizer.from_file(folder / "llama2")
    target = LibraryTokenizer.from_file(folder / "qwen2")
    vocab_map = build_vocab_map(drafter, target, target_size=TARGET_WIDTH)
    if options.map:
        save_file(vocab_map.tensors(), options.map, metadata=vocab_map.metadata())
        return
    if options.profile:
        print_profile(vocab_map)
        return
    figures = {
        f"{rows} rows, {temperature_name}, {'full' if prefilled else 'cold'} cache": measure(
            vocab_map, agreement, temperature, prefilled, trace=options.trace
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
