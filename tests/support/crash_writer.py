"""Processes that write repeatedly until they are killed (`kills.py`).

    python crash_writer.py cache|session FILE
    python crash_writer.py trace|pull DIRECTORY

A writer prints `done NUMBER` after every write; `pull` publishes and pulls, and prints before every pull the
number of the last release that was seen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omnidraft.runtime.decoding.length_state import Costs, LengthState
from omnidraft.runtime.session.conversation import Turn
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.session_file import encode_session
from omnidraft.runtime.session.session_store import read_session, write_session
from omnidraft.runtime.session.text_state import Identity, SavedAnswer, SavedSession
from omnidraft.runtime.traces.trace import Masses, Start, TracedRound, TracedToken, Vocabularies, window
from omnidraft.runtime.traces.trace_reader import read_traces
from omnidraft.runtime.traces.trace_store import TraceStore
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.cache_store import read_table, write_table
from omnidraft.runtime.vocab.cache_table import CacheTable
from omnidraft.runtime.vocab.vocab_map import Ragged
from support.kills import fork_for_each_line

SIZES = (3, 40_000, 500)  # entries: one page, many pages, a few


def numbered_table(tick: int) -> CacheTable:
    """The table of one write; its contents follow from its tick."""
    n = SIZES[tick % len(SIZES)]
    targets = np.arange(n, dtype=np.int32)
    spellings = Ragged(np.repeat(targets, 2), np.arange(n + 1, dtype=np.int32) * 2)
    ticks = np.full(n, tick, dtype=np.uint32)
    return CacheTable("d" * 64, "e" * 64, tick, targets, spellings, ticks, ticks, ticks)


def numbered_session(number: int) -> tuple[SavedSession, bytes]:
    """The session of one write, in the middle of an answer; its contents follow from its number."""
    ids = tuple(range(number, number + 40))
    answer = SavedAnswer(
        GenerationConfig(seed=number),
        ids[:9],
        ids[9:],
        ids,
        number,
        None,
    )
    turns = tuple(Turn(f"message {number}", (number, i)) for i in range(SIZES[number % len(SIZES)] // 200))
    identity = Identity("d" * 64, "e" * 64, {"target/cpu/model.onnx": "a" * 64})
    costs, message = Costs((0.001,), 0.001, 0.0), f"message {number}"
    state = SavedSession("0.1.0", identity, costs, LengthState(), turns, message, answer)
    return state, encode(numbered_table(number))


@dataclass(frozen=True)
class Kind:
    """A kind of file: write the file of a number, read the number of a file, encode the file of a number."""

    write: Callable[[Path, int], None]
    number: Callable[[Path], int]
    encoded: Callable[[int], bytes]


KINDS = {
    "cache": Kind(
        lambda path, tick: write_table(path, numbered_table(tick)),
        lambda path: read_table(path).tick,
        lambda tick: encode(numbered_table(tick)),
    ),
    "session": Kind(
        lambda path, number: write_session(path, *numbered_session(number)),
        lambda path: int(str(read_session(path)[0].message).split()[1]),
        lambda number: encode_session(*numbered_session(number)),
    ),
}


def numbered_round(number: int, more: int = 0) -> TracedRound:
    """One round of a trace: a token with the number as its id, and more of the same."""
    ids = np.arange(60 if more else 4 + number % 7)
    masses = Masses(ids, np.full(len(ids), 1 / 64, np.float16), 1.0 - len(ids) / 64)
    return TracedRound((TracedToken(number, 0.5, False, masses, masses, 0.0),) * (1 + more))


def record_for_ever(path: Path) -> None:
    """Continue from the last recorded round, with a record for each process."""
    rounds = [each for traced in read_traces(path) for each in traced.rounds] if path.exists() else []
    number, at = (rounds[-1].tokens[0].token_id if rounds else 0), None
    store = TraceStore(path, Vocabularies("d" * 64, "e" * 64, 4000, 60_000), max_bytes=1 << 20)
    while True:
        number += 1
        begun = Start(None, None, "trie", False, *window([7] * 2 * number))
        at = store.append(numbered_round(number, 30), lambda start=begun: start, at)  # type: ignore[misc]
        assert at is not None
        os.write(1, f"done {number}\n".encode())


def write_for_ever(kind: Kind, path: Path) -> None:
    """Continue from the number in the file."""
    number = kind.number(path)
    while True:
        number += 1
        kind.write(path, number)
        os.write(1, f"done {number}\n".encode())


def pull_for_ever(place: Path) -> None:
    """Publish and pull from the release on that the device has seen."""
    from omnidraft.sync.installed import read_installed
    from support.sync_world import folder_store, publish_number, pull_into

    store, number = folder_store(place / "store"), 0
    while True:
        number += 1
        publish_number(store, number, place / "memory")
        state = read_installed(place / "dir")
        os.write(1, f"done {state.seen.number if state and state.seen else 0}\n".encode())
        pull_into(store, place / "dir", cache=place / "mine.odc")


OTHERS = {"trace": record_for_ever, "pull": pull_for_ever}

if __name__ == "__main__":
    name, path = sys.argv[1], Path(sys.argv[2])
    if name in KINDS:
        fork_for_each_line(lambda: write_for_ever(KINDS[name], path))
    else:
        fork_for_each_line(lambda: OTHERS[name](path))
