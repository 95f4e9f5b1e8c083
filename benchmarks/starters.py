"""Speed-up of the starter pairs over plain decoding on unseen prompts of four kinds, arm by arm.

    python -m benchmarks.starters [--prompts N] [--json]

Each arm is interleaved with plain decoding of the same runtime, prompt by prompt (`omnidraft bench`). The
target is stored in fp32 and the drafter in int8, as in `omnidraft demo`. Greedy, at most 96 new tokens, and a
text ends where the target ends it. "Learned" is the drafter with the adapter of examples/starters/learned,
and its n-grams.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from benchmarks.support.starter_pairs import StarterPair, export_starters
from benchmarks.support.task_data import require
from benchmarks.support.task_prompts import unseen
from omnidraft.commands.bench import BENCH_CONFIG, BenchResult, bench, bench_json
from omnidraft.runtime.session.api import load
from omnidraft.runtime.session.modes import Mode

ARMS: dict[str, tuple[Mode, int | Literal["auto"], bool]] = {
    "direct map, k = 4": ("direct", 4, False),
    "omnidraft, k = 4": ("trie", 4, False),
    "omnidraft, auto": ("trie", "auto", False),
    "learned, k = 4": ("trie", 4, True),
    "learned, auto": ("trie", "auto", True),
}


def measure(pair: StarterPair, prompts: list[str]) -> dict[str, BenchResult]:
    """Every arm on one target; the cache, empty or learned at first, is kept from prompt to prompt."""
    results = {}
    for name, (mode, count, learned) in ARMS.items():
        session = load(pair.learned, cache=pair.cache) if learned else load(pair.untrained)
        session.measure(prompts[0])
        config = replace(BENCH_CONFIG, max_new_tokens=96, mode=mode, num_draft_tokens=count)
        results[name] = bench(session, prompts, config)
    return results


def by_task(result: BenchResult, tasks: list[str]) -> dict[str, BenchResult]:
    """The result of each task's prompts, and of all of them."""
    count = len(result.lines) // len(tasks)
    parts = {
        task: replace(result, lines=result.lines[i * count : (i + 1) * count]) for i, task in enumerate(tasks)
    }
    return {**parts, "all": result}


def table(results: dict[str, dict[str, BenchResult]], tasks: list[str]) -> Iterator[str]:
    """Speed-up with its 95 % interval and tokens per target pass, by task, in Markdown."""
    yield f"| target | arm | {' | '.join([*tasks, 'all'])} | slower than plain |"
    yield "|---" * (4 + len(tasks)) + "|"
    for name, arms in results.items():
        for arm, result in arms.items():
            cells = [
                f"{part.speed.ratio:.2f}x ({part.speed.interval[0]:.2f}-{part.speed.interval[1]:.2f}), "
                f"{part.totals.tokens_per_target_pass:.2f}"
                for part in by_task(result, tasks).values()
            ]
            slower = sum(line.ratio < 1.0 for line in result.lines)
            yield f"| {name} | {arm} | {' | '.join(cells)} | {slower} of {len(result.lines)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--prompts", type=int, default=10, help="prompts of each of the four tasks")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    require("tasks")
    tasks = unseen(options.prompts)
    prompts = [prompt for of_task in tasks.values() for prompt in of_task]
    with tempfile.TemporaryDirectory() as place:
        pairs = export_starters(Path(place), lambda *_: None)
        results = {pair.name: measure(pair, prompts) for pair in pairs}
    if options.json:
        values = {name: {arm: bench_json(r) for arm, r in arms.items()} for name, arms in results.items()}
        print(json.dumps(values, indent=2))
        return
    print(
        f"{len(prompts)} unseen prompts, greedy; speed-up over plain decoding (95 % interval over prompts), "
    )
    print("tokens for each pass of the target\n")
    print("\n".join(table(results, list(tasks))))


if __name__ == "__main__":
    main()
