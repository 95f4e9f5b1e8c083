"""The same pair, prompts and draft length in transformers, onnxruntime-genai and omnidraft.

    python -m benchmarks.peers                  # counts, then distances from the target's distribution
    python -m benchmarks.peers --speed          # times, beside plain decoding of the same runtime
    python -m benchmarks.peers --table          # the tables of the results that are there
    python -m benchmarks.peers --only learned   # arms whose name holds a text; also --target a

Both starter targets in fp32 with their drafter (fp32 in transformers, int8 in the bundle), untrained and
learned, on unseen prompts of four tasks. Counted are output tokens for each pass of the target, which
needs no clock; whether greedy text is that of plain decoding; and, at temperature 1, how far the first
two tokens are from the target's exact distribution. Each answer is a line of the results. A run that is
started again goes on; where the adapter in examples/starters/learned changed, it measures the learned arms
again.
"""

import argparse
import time
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.peers.arms import Arm, arms
from benchmarks.peers.lines import COUNTS, DISTANCES, RESULTS, SPEEDS, digest, read, tidy
from benchmarks.peers.measure import Measuring, prompts_of
from benchmarks.peers.tables import count_tables, goal_table, speed_tables
from benchmarks.support.starter_pairs import export_starters
from benchmarks.support.task_data import require
from omnidraft.commands.starters import find_starters

NOT_TIMED = ("plain", "its defaults", "as shipped, k = 4", "cold cache, k = 4")  # arms that others stand for
WORK = Path(__file__).resolve().parents[2] / ".cache" / "peers"


def pairs(options: argparse.Namespace, progress: Progress) -> list[tuple[Measuring, list[Arm]]]:
    """Each target with the arms that are asked for; its bundles are exported where they are not there."""
    learned = find_starters() / "learned"
    place = options.work / digest(sorted(learned.glob("*/*")))  # other adapters make other bundles
    bar = progress.add_task("export", total=None)
    exported = export_starters(place, lambda step, *_: progress.update(bar, description=step))
    progress.remove_task(bar)
    found = []
    for pair in exported:
        if options.target in (None, pair.name[-1]):
            prompts = prompts_of(pair, options.prompts, options.gsm8k)
            every = arms(pair, timed=options.speed)
            asked = [arm for arm in every if all(text in str(arm) for text in options.only)]
            if options.speed:
                asked = [arm for arm in asked if not arm.name.endswith(NOT_TIMED)]
            file = options.results / (SPEEDS if options.speed else COUNTS)
            found.append((Measuring(pair, prompts, file), asked))
    return found


def run(options: argparse.Namespace, progress: Progress) -> None:
    """Write the lines that are missing, until none is or the time is over."""
    ends = time.monotonic() + 60 * options.minutes
    measured = pairs(options, progress)
    todo = [(m, work, at) for m, asked in measured for at, work in enumerate(m.work(asked, options.seeds))]
    todo.sort(key=lambda each: (each[1].seed, each[2]))  # both targets in turn, before the next seed
    bar = progress.add_task("", total=sum(len(work.prompts) for _, work, _ in todo))
    for measuring, work, _ in todo:
        progress.update(bar, description=f"{measuring.pair.name} {work.arm} {work.task}")
        for _ in (measuring.time if options.speed else measuring.count)(work):
            progress.advance(bar)
            if time.monotonic() > ends:
                return
    if not options.speed:
        for measuring, asked in measured:
            other = Measuring(measuring.pair, measuring.prompts, options.results / DISTANCES)
            progress.update(bar, description=f"{measuring.pair.name} distances", completed=0, total=None)
            for _ in other.distances(asked, options.draws):
                if time.monotonic() > ends:
                    return


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--speed", action="store_true", help="time the arms; takes an idle machine")
    parser.add_argument("--table", action="store_true", help="measure nothing and print the tables")
    parser.add_argument("--prompts", type=int, help="of each task but GSM8K (12; with --speed 4)")
    parser.add_argument("--gsm8k", type=int, help="prompts of GSM8K (24; with --speed 4)")
    parser.add_argument("--seeds", type=int, help="answers to a prompt at T = 1 (3; with --speed 1)")
    parser.add_argument("--draws", type=int, default=120, help="texts of a prompt for a distance")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="arms whose name holds it")
    parser.add_argument("--target", choices=("a", "b"), help="one target only")
    parser.add_argument("--minutes", type=float, default=1e6, help="end then, with what is there")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--work", type=Path, default=WORK, help="directory of exported bundles; it is kept")
    options = parser.parse_args()
    options.prompts = options.prompts or (4 if options.speed else 12)
    options.gsm8k = options.gsm8k or (4 if options.speed else 24)
    options.seeds = options.seeds or (1 if options.speed else 3)
    return options


def main() -> None:
    options = parsed()
    counts, speeds, distances = (options.results / name for name in (COUNTS, SPEEDS, DISTANCES))
    if not options.table:
        require("tasks")
        torch.set_num_threads(1)
        columns = (MofNCompleteColumn(), BarColumn(20), TimeRemainingColumn())
        with Progress(TextColumn("{task.description}"), *columns) as progress:
            run(options, progress)
        for file in (counts, speeds, distances):
            tidy(file)
    for lines in (
        count_tables(read(counts), read(distances)),
        goal_table(read(counts)),
        speed_tables(read(speeds)),
    ):
        print("\n".join(lines))


if __name__ == "__main__":
    main()
