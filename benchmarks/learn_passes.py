"""What `omnidraft learn` gains from a few answers, by the number of passes over them.

    python -m benchmarks.learn_passes [--target a b] [--answers 32 128] [--passes 1 4 8 16]

A starter target writes greedy answers to the first GSM8K training prompts, which are recorded as a trace.
`omnidraft learn` makes an adapter of it for each number of passes, at its other defaults. A cell is the gain
of tokens for each pass of the target over the untrained drafter (k = 4, greedy, GSM8K test prompts that
neither model has seen), and the seconds of learning.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.experiments.running.tasks import TASKS, spread
from benchmarks.support.task_data import require
from omnidraft.cli import app
from omnidraft.commands.starters import find_starters
from omnidraft.commands.terminal.progress import progress_bar
from omnidraft.export.bundle import export_bundle
from omnidraft.export.options import USUAL_RANK, Options
from omnidraft.export.quantize.quantize import FP32, INT8
from omnidraft.runtime.session.api import GenerationConfig, load

PLAIN = GenerationConfig(max_new_tokens=96, mode="plain")
DRAFTING = GenerationConfig(max_new_tokens=96, num_draft_tokens=4)
BATCH = 8  # responses in a step, the default of `omnidraft learn`


def bundle_of(target: str, place: Path) -> Path:
    """A bundle of a starter target whose drafter can learn without torch."""
    models, bundle = find_starters(), place / f"bundle-{target}"
    with progress_bar(f"export {bundle.name}") as bar:
        options = Options(FP32, INT8, train_rank=USUAL_RANK)
        export_bundle(str(models / target), str(models / "drafter"), bundle, options, bar.stage)
    return bundle


def record(bundle: Path, trace: Path, count: int) -> None:
    """Record the target's answers to the first training prompts."""
    session = load(bundle, trace=trace, threads=1)
    for prompt in TASKS["gsm8k"].prompts("train")[:count]:
        session.generate(prompt, PLAIN).finish()


def learned(bundle: Path, trace: Path, steps: int, out: Path) -> float:
    """Write an adapter; the seconds that it took."""
    started = time.perf_counter()
    command = ["learn", str(bundle), str(trace), "-o", str(out), "--steps", str(steps)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    if result.exit_code:
        raise SystemExit(result.output)
    return time.perf_counter() - started


def tokens_a_pass(bundle: Path, adapter: Path | None, prompts: list[str]) -> float:
    """Of all prompts together."""
    session = load(bundle, threads=1)
    if adapter is not None:
        session.use_adapter(adapter)
    statistics = [session.generate(prompt, DRAFTING).finish().statistics for prompt in prompts]
    return sum(each.emitted for each in statistics) / sum(each.rounds for each in statistics)


def rows(target: str, options: argparse.Namespace, place: Path) -> Iterator[list[str]]:
    """A row of the table for each number of answers."""
    bundle = bundle_of(target, place)
    prompts = spread(TASKS["gsm8k"].prompts("test"), options.unseen)
    untrained = tokens_a_pass(bundle, None, prompts)
    for answers in options.answers:
        trace = place / f"trace-{target}-{answers}"
        record(bundle, trace, answers)
        cells = [f"starter-{target}", str(answers), f"{untrained:.2f}"]
        for passes in options.passes:
            out = place / f"{target}-{answers}-{passes}.safetensors"
            seconds = learned(bundle, trace, passes * -(-answers // BATCH), out)
            gained = tokens_a_pass(bundle, out, prompts) / untrained
            cells.append(f"{gained:.2f}, {seconds:.0f} s")
        yield cells


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--target", nargs="+", choices=("a", "b"), default=("a", "b"))
    parser.add_argument("--answers", type=int, nargs="+", default=(32, 128))
    parser.add_argument("--passes", type=int, nargs="+", default=(1, 4, 8, 16))
    parser.add_argument("--unseen", type=int, default=40, help="test prompts")
    options = parser.parse_args()
    require("tasks")
    names = [
        "target",
        "answers",
        "untrained",
        *(f"{each} pass{'es' * (each > 1)}" for each in options.passes),
    ]
    print(f"| {' | '.join(names)} |\n{'|---' * len(names)}|", flush=True)
    for target in options.target:
        with tempfile.TemporaryDirectory() as place:
            for cells in rows(target, options, Path(place)):
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
