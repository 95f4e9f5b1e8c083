"""Processes that write one cache over and over until they are killed; `test_crash_safety.py` kills them.

    python crash_writer.py FILE

For each line of standard input it forks a writer and prints the writer's process id; a writer prints
`done TICK` after every write. Forking spares the start of an interpreter for each of 200 kills.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from omnidraft.runtime.cache_store import read_table, write_table
from omnidraft.runtime.cache_table import CacheTable
from omnidraft.runtime.vocab_map import Ragged

SIZES = (3, 40_000, 500)  # entries: one page, many pages, a few


def numbered(tick: int) -> CacheTable:
    """The table of one write: all that it holds follows from its tick."""
    n = SIZES[tick % len(SIZES)]
    targets = np.arange(n, dtype=np.int32)
    spellings = Ragged(np.repeat(targets, 2), np.arange(n + 1, dtype=np.int32) * 2)
    ticks = np.full(n, tick, dtype=np.uint32)
    counts = np.full((1, 2, n), tick, dtype=np.uint32)
    return CacheTable("d" * 64, "e" * 64, 1, tick, targets, spellings, ticks, (1,), counts)


def write_for_ever(path: Path) -> None:
    """Go on from the tick that the file has."""
    tick = read_table(path).tick
    while True:
        tick += 1
        write_table(path, numbered(tick))
        os.write(1, f"done {tick}\n".encode())


def main() -> None:
    path = Path(sys.argv[1])
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            write_for_ever(path)
        os.write(1, f"{child}\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"gone\n")


if __name__ == "__main__":
    main()
