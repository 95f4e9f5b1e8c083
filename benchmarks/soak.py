"""A soak: thousands of short generations in two threads on one bundle, and the memory that the process holds.

    python -m benchmarks.soak BUNDLE [--count 3000] [--threads 2] [--json]

Each thread has a session of its own on the shared weights. The threads change mode, temperature and prompt
from one generation to the next, and begin a new session now and then. The slope is that of a straight line
through the resident memory after the first fifth, in bytes a generation.
"""

import argparse
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import numpy as np

from omnidraft.runtime.session.api import LoadedBundle, Session, load_bundle
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.modes import Mode

PROMPTS = ("How many legs do 3 cats have?", "Name a colour.", "What is 7 and 5?", "def double(x):", "Hello")
MODES: tuple[Mode, ...] = ("trie", "lookup", "plain", "trie")
TOKENS = 12  # of an answer
RENEWED = 200  # generations of a session
SAMPLES = 30  # readings of the memory
SETTLED = 0.2  # of the readings, in which buffers of all lengths are made


@dataclass(frozen=True)
class Soak:
    """What a soak showed.

    Attributes:
        generations: in all threads.
        seconds: of all of them.
        megabytes: resident memory at even intervals.
        slope: bytes a generation, after the first fifth.
        growth: megabytes between the mean of the first and of the last fifth after that.
    """

    generations: int
    seconds: float
    megabytes: list[float]
    slope: float
    growth: float


def resident() -> int:
    """Resident bytes of this process (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def soak(loaded: LoadedBundle, generations: int, threads: int, *, report: bool = False) -> Soak:
    """Generate in threads and read the memory at even intervals.

    Args:
        loaded: the bundle that the sessions share.
        generations: in all threads together.
        threads: how many generate at once.
        report: print each reading.
    """
    numbers, readings, failed = count(), list[tuple[int, int]](), list[BaseException]()
    every = max(1, generations // SAMPLES)

    def work() -> None:
        session = Session(loaded)
        try:
            while (number := next(numbers)) < generations:
                if number % RENEWED >= RENEWED - threads:
                    session = Session(loaded)
                _generate(session, number)
                if number % every == 0:
                    readings.append((number, resident()))
                    if report:
                        print(f"{number:6} generations  {readings[-1][1] / 1e6:8.1f} MB", flush=True)
        except BaseException as error:  # of a thread: raised again below
            failed.append(error)

    started = time.monotonic()
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    return _summary(sorted(readings), generations, time.monotonic() - started)


def _generate(session: Session, number: int) -> None:
    config = GenerationConfig(
        max_new_tokens=TOKENS,
        mode=MODES[number % len(MODES)],
        temperature=0.8 if number % 3 == 0 else 0.0,
        num_draft_tokens="auto" if number % 2 else 4,
        seed=number,
    )
    session.generate(PROMPTS[number % len(PROMPTS)], config).finish()


def _summary(readings: Sequence[tuple[int, int]], generations: int, seconds: float) -> Soak:
    at, bytes_held = np.array(readings, np.float64).T
    settled = at >= SETTLED * generations
    slope = float(np.polyfit(at[settled], bytes_held[settled], 1)[0])
    fifth = max(1, int(settled.sum()) // 5)
    growth = float(bytes_held[settled][-fifth:].mean() - bytes_held[settled][:fifth].mean())
    return Soak(generations, seconds, [round(b / 1e6, 1) for b in bytes_held], slope, growth / 1e6)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = soak(
        load_bundle(options.bundle, measure="never"), options.count, options.threads, report=not options.json
    )
    if options.json:
        print(json.dumps(asdict(found)))
        return
    print(
        f"{found.generations} generations in {options.threads} threads in {found.seconds:.0f} s: "
        f"{found.megabytes[0]:.0f} MB at first, {found.megabytes[-1]:.0f} MB at the end; "
        f"slope {found.slope:.0f} bytes a generation, growth {found.growth:+.1f} MB after the first fifth"
    )


if __name__ == "__main__":
    main()
