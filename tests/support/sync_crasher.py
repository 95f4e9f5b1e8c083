"""A process that publishes and pulls repeatedly; `test_sync_crash.py` kills it.

    python sync_crasher.py pull DIRECTORY

For each line of standard input it forks a worker and prints the worker's process id. A worker prints `done
NUMBER` before every pull with the number of the last release that was seen.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from omnidraft.sync.installed import read_installed
from support.sync_world import folder_store, publish_number, pull_into


def pull_for_ever(place: Path) -> None:
    """Publish and pull from the release on that the device has seen."""
    store, number = folder_store(place / "store"), 0
    while True:
        number += 1
        publish_number(store, number, place / "memory")
        state = read_installed(place / "dir")
        os.write(1, f"done {state.seen.number if state and state.seen else 0}\n".encode())
        pull_into(store, place / "dir", cache=place / "mine.odc")


def main() -> None:
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            pull_for_ever(Path(sys.argv[2]))
        os.write(1, f"{child}\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"gone\n")


if __name__ == "__main__":
    main()
