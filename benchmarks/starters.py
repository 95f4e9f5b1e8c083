"""The starter pairs on unseen prompts of four kinds: plain decoding against omnidraft, arm by arm.

    python -m benchmarks.starters [--prompts N] [--json]

Each arm is interleaved with plain decoding of the same runtime, prompt by prompt (`omnidraft bench`). The
target is stored in fp32 and the drafter in int8, as in `omnidraft demo`; greedy, 96 new tokens, end ignored.
"Learned" has the adapter of examples/starters/learned folded into the drafter, and its n-grams.
"""

import argparse
import gzip
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from omnidraft.commands.bench import Result, as_json, bench
from omnidraft.commands.demo import Exported, export_starters
from omnidraft.runtime.decoding.speculate import Mode
from omnidraft.runtime.session.api import load

DATA = Path(os.environ.get("OMNIDRAFT_DATA") or Path(__file__).resolve().parents[2] / "shared/data")
FIRST_UNSEEN_MBPP = 910  # rows before it are in the targets' training

ARMS: dict[str, tuple[Mode, int | Literal["auto"], bool]] = {
    "direct map, k = 4": ("direct", 4, False),
    "omnidraft, k = 4": ("trie", 4, False),
    "omnidraft, auto": ("trie", "auto", False),
    "learned, k = 4": ("trie", 4, True),
    "learned, auto": ("trie", "auto", True),
}


def rows(file: str) -> list[dict[str, str]]:
    """The rows of a task file."""
    with gzip.open(DATA / "tasks" / file, "rt", encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def unseen(count: int) -> Iterator[str]:
    """So many prompts of each task that no starter model was trained on."""
    for row in rows("gsm8k/test.jsonl.gz")[:count]:
        yield row["question"]
    for row in rows("mbpp/mbpp.jsonl.gz")[FIRST_UNSEEN_MBPP:][:count]:
        yield row["text"]
    for row in rows("humaneval/humaneval.jsonl.gz")[:count]:
        yield row["prompt"]
    for row in rows("scitldr/dev.jsonl.gz")[:count]:
        yield "Summarize in one sentence: " + " ".join(row["source"])


def measure(pair: Exported, prompts: list[str]) -> dict[str, Result]:
    """Every arm on one target: with an empty cache or the learned one, kept from prompt to prompt."""
    found = {}
    for name, (mode, count, learned) in ARMS.items():
        session = load(pair.learned, cache=pair.cache) if learned else load(pair.untrained)
        session.measure(prompts[0])
        found[name] = bench(session, prompts, max_new_tokens=96, mode=mode, num_draft_tokens=count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--prompts", type=int, default=10, help="prompts of each of the four tasks")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not (DATA / "tasks").is_dir():
        sys.exit(f"no task data at {DATA}; set OMNIDRAFT_DATA to the folder that holds tasks/")
    prompts = list(unseen(options.prompts))
    with tempfile.TemporaryDirectory() as place:
        pairs = export_starters(Path(place), lambda *_: None)
        found = {pair.name: measure(pair, prompts) for pair in pairs}
    if options.json:
        print(
            json.dumps(
                {n: {arm: as_json(r) for arm, r in arms.items()} for n, arms in found.items()}, indent=2
            )
        )
        return
    print(f"{len(prompts)} unseen prompts, greedy; speed-up over plain decoding (95 % interval over prompts)")
    print(
        f"{'target':10}{'arm':20}{'speed-up':>10}{'interval':>14}{'predicted':>11}{'slower':>8}{'tokens/pass':>13}"
    )
    for name, arms in found.items():
        for arm, r in arms.items():
            low, high = r.interval
            print(
                f"{name:10}{arm:20}{r.speed_up:9.2f}x{f'{low:.2f}-{high:.2f}':>14}"
                f"{r.predicted:10.2f}x{r.share_slower:8.0%}{r.tokens_per_target_pass:13.2f}"
            )


if __name__ == "__main__":
    main()
