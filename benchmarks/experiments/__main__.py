"""Run experiments: `python -m benchmarks.experiments e1 e5 ...`; what is done already is not done again."""

import argparse
import os
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks.experiments.results import Arm, measure
from omnidraft.errors import OmnidraftError, SettingError

EXPERIMENTS = ("e1", "e2", "e4", "e5", "e6", "e7")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", nargs="+", choices=("prepare", *EXPERIMENTS), help="in this order")
    parser.add_argument("--list", action="store_true", help="show the arms and which are done, run none")
    parser.add_argument("--only", nargs="+", default=[""], help="arms whose key has one of these in it")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no arm after so many")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(os.environ.get("OMNIDRAFT_EXPERIMENTS", "omnidraft-experiments")),
        help="directory of answers, bundles and drafters (also OMNIDRAFT_EXPERIMENTS)",
    )
    options = parser.parse_args()
    ending = time.monotonic() + 60.0 * options.minutes
    try:
        for name in options.what:
            if name == "prepare":
                _prepare(options.work, ending, options.list)
                continue
            arms: list[Arm] = list(import_module(f"benchmarks.experiments.{name}").arms())
            _run(
                [a for a in arms if any(o in a.key for o in options.only)], options.work, ending, options.list
            )
    except OmnidraftError as error:
        sys.exit(str(error))


def _run(arms: list[Arm], work: Path, ending: float, only_list: bool) -> None:
    for i, arm in enumerate(arms, 1):
        place = f"{i}/{len(arms)} {arm.experiment} {arm.key}"
        if only_list or arm.file.exists():
            print(f"{place}: {'done' if arm.file.exists() else 'to do'}", flush=True)
            continue
        if time.monotonic() > ending:
            print("the time is over; run this again to go on", flush=True)
            return
        started = time.monotonic()
        try:
            measure(arm, work)
        except SettingError as error:  # its answers were not prepared; others' may have been
            print(f"{place}: {error}", flush=True)
            continue
        print(f"{place}: {time.monotonic() - started:.0f} s", flush=True)


def _prepare(work: Path, ending: float, only_list: bool) -> None:
    from benchmarks.experiments.answers import compute, plan

    shards = plan()
    for i, shard in enumerate(shards, 1):
        file = shard.file(work)
        place = f"{i}/{len(shards)} {file.name}"
        if only_list or file.exists():
            print(f"{place}: {'done' if file.exists() else 'to do'}", flush=True)
            continue
        if time.monotonic() > ending:
            print("the time is over; run this again to go on", flush=True)
            return
        started = time.monotonic()
        compute(work, shard)
        print(f"{place}: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
