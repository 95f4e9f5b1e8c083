"""Processes that push to a store, or publish and pull, repeatedly; `test_sync_crash.py` kills them.

    python sync_crasher.py push|pull DIRECTORY

For each line of standard input it forks a worker and prints the worker's process id. A worker prints `done
NUMBER` after every push, or before every pull with the number of the last release that was seen.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from omnidraft.sync.channel import utc
from omnidraft.sync.installed import read_installed
from omnidraft.sync.push import push, push_of, read_push
from support.sync_world import PAIR, folder_store, made_items, publish_number, pull_into


def push_for_ever(place: Path) -> None:
    """Push from the number in the store on."""
    store = folder_store(place / "store")
    record = read_push(store, PAIR.channel, "phone")
    number = record.accepted if record else 0
    while True:
        number += 1
        items = made_items(number)
        push(store, push_of(items, "phone", PAIR.channel, number, utc()), items)
        os.write(1, f"done {number}\n".encode())


def pull_for_ever(place: Path) -> None:
    """Publish and pull from the release on that the device has seen."""
    store = folder_store(place / "store")
    while True:
        publish_number(store, _seen(place) + 1)
        os.write(1, f"done {_seen(place)}\n".encode())
        pull_into(store, place / "dir", cache=place / "mine.odc")


def _seen(place: Path) -> int:
    state = read_installed(place / "dir")
    return state.seen.number if state and state.seen else 0


def main() -> None:
    work = {"push": push_for_ever, "pull": pull_for_ever}[sys.argv[1]]
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            work(Path(sys.argv[2]))
        os.write(1, f"{child}\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"gone\n")


if __name__ == "__main__":
    main()
