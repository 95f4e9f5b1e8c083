"""Run experiments by name, resumable: `python -m benchmarks.experiments learning_gain cache_budget ...`."""

import argparse
import os
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks.experiments import EXPERIMENTS
from benchmarks.experiments.running.results import Arm, is_done, run_arm
from omnidraft.errors import OmnidraftError, SettingError


def main() -> None:
    options = _parser().parse_args()
    deadline = time.monotonic() + 60.0 * options.minutes
    try:
        for name in options.what:
            if name == "prepare":
                _prepare(options.work, deadline, options.list)
                continue
            arms: list[Arm] = list(import_module(f"benchmarks.experiments.{name}").arms())
            chosen = [arm for arm in arms if arm.key.startswith(tuple(options.only))]
            _run(chosen, options.work, deadline, options.list)
    except OmnidraftError as error:
        sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", nargs="+", choices=("prepare", *EXPERIMENTS), help="run in this order")
    parser.add_argument("--list", action="store_true", help="list the arms and which are done; run nothing")
    parser.add_argument("--only", nargs="+", default=[""], help="arms whose key begins with one of these")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no arm after this time")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(os.environ.get("OMNIDRAFT_EXPERIMENTS", "omnidraft-experiments")),
        help="directory of answers, bundles and drafters (also OMNIDRAFT_EXPERIMENTS)",
    )
    return parser


def _run(arms: list[Arm], work: Path, deadline: float, only_list: bool) -> None:
    for i, arm in enumerate(arms, 1):
        place = f"{i}/{len(arms)} {arm.experiment} {arm.key}"
        done = is_done(arm)
        if only_list or done:
            print(f"{place}: {'done' if done else 'to do'}", flush=True)
            continue
        if time.monotonic() > deadline:
            print("the time is over; run this again to go on", flush=True)
            return
        started = time.monotonic()
        try:
            run_arm(arm, work)
        except SettingError as error:  # the answers of this arm are missing; those of later arms may exist
            print(f"{place}: {error}", flush=True)
            continue
        print(f"{place}: {time.monotonic() - started:.0f} s", flush=True)


def _prepare(work: Path, deadline: float, only_list: bool) -> None:
    from benchmarks.experiments.running.answers import compute, plan

    shards = plan()
    for i, shard in enumerate(shards, 1):
        file = shard.file(work)
        place = f"{i}/{len(shards)} {file.name}"
        if only_list or file.exists():
            print(f"{place}: {'done' if file.exists() else 'to do'}", flush=True)
            continue
        if time.monotonic() > deadline:
            print("the time is over; run this again to go on", flush=True)
            return
        started = time.monotonic()
        compute(work, shard)
        print(f"{place}: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
