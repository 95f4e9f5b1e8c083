"""Speed-up of the starter pairs over plain decoding on unseen prompts of four kinds, arm by arm.

    python -m benchmarks.starters [--prompts N] [--json]

Each arm is interleaved with plain decoding of the same runtime, prompt by prompt (`omnidraft bench`). The
target is stored in fp32 and the drafter in int8, as in `omnidraft demo`. Greedy, 96 new tokens, the end of a
text is ignored. "Learned" is the drafter with the adapter of examples/starters/learned, and its n-grams.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from benchmarks.support.task_data import require, rows
from omnidraft.commands.bench import BENCH_CONFIG, BenchResult, bench, bench_json
from omnidraft.commands.starters import StarterPair, export_starters
from omnidraft.runtime.decoding.baselines import Mode
from omnidraft.runtime.session.api import load

FIRST_UNSEEN_MBPP = 910  # the targets were trained on the rows before it

ARMS: dict[str, tuple[Mode, int | Literal["auto"], bool]] = {
    "direct map, k = 4": ("direct", 4, False),
    "omnidraft, k = 4": ("trie", 4, False),
    "omnidraft, auto": ("trie", "auto", False),
    "learned, k = 4": ("trie", 4, True),
    "learned, auto": ("trie", "auto", True),
}


def unseen(count: int) -> Iterator[str]:
    """`count` prompts of each task that no starter model was trained on."""
    for row in rows("gsm8k/test")[:count]:
        yield row["question"]
    for row in rows("mbpp/mbpp")[FIRST_UNSEEN_MBPP:][:count]:
        yield row["text"]
    for row in rows("humaneval/humaneval")[:count]:
        yield row["prompt"]
    for row in rows("scitldr/dev")[:count]:
        yield "Summarize in one sentence: " + " ".join(row["source"])


def measure(pair: StarterPair, prompts: list[str]) -> dict[str, BenchResult]:
    """Every arm on one target; the cache, empty or learned at first, is kept from prompt to prompt."""
    results = {}
    for name, (mode, count, learned) in ARMS.items():
        session = load(pair.learned, cache=pair.cache) if learned else load(pair.untrained)
        session.measure(prompts[0])
        config = replace(BENCH_CONFIG, max_new_tokens=96, mode=mode, num_draft_tokens=count)
        results[name] = bench(session, prompts, config)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--prompts", type=int, default=10, help="prompts of each of the four tasks")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    require("tasks")
    prompts = list(unseen(options.prompts))
    with tempfile.TemporaryDirectory() as place:
        pairs = export_starters(Path(place), lambda *_: None)
        results = {pair.name: measure(pair, prompts) for pair in pairs}
    if options.json:
        values = {name: {arm: bench_json(r) for arm, r in arms.items()} for name, arms in results.items()}
        print(json.dumps(values, indent=2))
        return
    print(f"{len(prompts)} unseen prompts, greedy; speed-up over plain decoding (95 % interval over prompts)")
    print(f"{'target':10}{'arm':20}{'speed-up':>10}{'interval':>14}{'predicted':>11}", end="")
    print(f"{'slower':>8}{'tokens/pass':>13}")
    for name, arms in results.items():
        for arm, r in arms.items():
            low, high = r.interval
            print(
                f"{name:10}{arm:20}{r.speed_up:9.2f}x{f'{low:.2f}-{high:.2f}':>14}"
                f"{r.predicted:10.2f}x{r.share_slower:8.0%}{r.tokens_per_target_pass:13.2f}"
            )


if __name__ == "__main__":
    main()
