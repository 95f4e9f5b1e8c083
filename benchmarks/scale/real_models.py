"""Speed and tokens a pass of real models: unseen prompts of five tasks, plain decoding beside the default.

    python -m benchmarks.scale.real_models BUNDLE ... [--prompts N] [--temperatures 0 0.7] [--json FILE]

N prompts of each task (default 8): GSM8K test, MBPP after the row that training may read, HumanEval, SciTLDR
dev, and open chat from the package's own list. Each is answered plainly, by default, and plainly again, at
most 96 tokens; sampled texts have top-p 0.9. Needs OMNIDRAFT_DATA and an idle machine.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.support.task_data import require, rows
from omnidraft.commands.bench import BenchLine, BenchResult, bench, bench_json
from omnidraft.mixed_prompts import CHAT
from omnidraft.pair_verdict import Speed, speed_of
from omnidraft.runtime.session.api import GenerationConfig, load

TOKENS = 96
TOP_P = 0.9  # of sampled texts
_MBPP_UNSEEN = 910  # rows before it may be trained on


def prompts(count: int) -> dict[str, list[str]]:
    """`count` prompts of each task."""
    return {
        "GSM8K": [row["question"] for row in rows("gsm8k/test")[:count]],
        "MBPP": [row["text"] for row in rows("mbpp/mbpp")[_MBPP_UNSEEN : _MBPP_UNSEEN + count]],
        "HumanEval": [row["prompt"] for row in rows("humaneval/humaneval")[:count]],
        "SciTLDR": [
            "Summarize in one sentence: " + " ".join(row["source"]) for row in rows("scitldr/dev")[:count]
        ],
        "chat": list(CHAT[:count]),
    }


def measured(
    bundle: Path, tasks: dict[str, list[str]], temperature: float
) -> Iterator[tuple[str, BenchResult]]:
    """The figures of each task; one session, and the cache learns from task to task as a user's does."""
    session = load(bundle, measure="never")
    top_p = TOP_P if temperature else 1.0
    config = GenerationConfig(max_new_tokens=TOKENS, temperature=temperature, top_p=top_p, seed=0)
    session.measure(tasks["chat"][0])
    for task, texts in tasks.items():
        yield task, bench(session, texts, config)


def row(name: str, lines: Sequence[BenchLine]) -> str:
    """A line of the table."""
    speed: Speed = speed_of([line.counted for line in lines], [line.ratio for line in lines])
    plain = len(lines) / sum(1.0 / line.plain for line in lines)
    low, high = speed.interval
    slower = sum(line.ratio < 1.0 for line in lines)
    worst = min(line.ratio for line in lines)
    return (
        f"| {name} | {plain:.0f} | {speed.ratio:.2f}x ({low:.2f}-{high:.2f}) | +{speed.copies:.2f} | "
        f"+{speed.drafts:.2f} | {slower} of {len(lines)}, {worst:.2f}x |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.7])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    require("tasks")
    tasks = prompts(options.prompts)
    found: dict[str, Any] = {}
    for bundle in options.bundles:
        for temperature in options.temperatures:
            print(f"\n{bundle.name}, T = {temperature:g}\n")
            print("| task | plain tok/s | speed (95 %) | copies | drafts | slower, worst |")
            print("|---|---|---|---|---|---|", flush=True)
            every: list[BenchLine] = []
            for task, result in measured(bundle, tasks, temperature):
                print(row(task, result.lines), flush=True)
                every += result.lines
                found[f"{bundle.name} {temperature:g} {task}"] = bench_json(result)
            print(row("all", every), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
