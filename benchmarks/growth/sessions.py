"""Against the sessions on one loaded bundle: memory, a round of one of them, and all of them at once.

starter-a with its drafter and 1,024 positions. Each session answers a text of 256 tokens before it counts.
"""

import gc
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.growth.axis import Axis, Column, Panel, Row, Settings
from benchmarks.growth.bundles import open_pair
from benchmarks.growth.process import held
from benchmarks.growth.rounds import DRAFTED, round_cost, text_ids
from omnidraft.runtime.session.api import Session

COUNTS = (1, 2, 4, 8, 16)
PROMPT, TOKENS = 192, 64  # of each session's first answer


def points(quick: bool) -> Sequence[Settings]:
    if quick:
        return [{"sessions": [1, 3], "prompt": 16, "tokens": 8, "rounds": 3}]
    return [{"sessions": list(COUNTS), "prompt": PROMPT, "tokens": TOKENS, "rounds": 16}]


def measure(settings: Settings, work: Path) -> list[Row]:
    """The rows of all counts; one process, in which sessions are added."""
    loaded = open_pair(work)
    _answer(Session(loaded), settings)  # what onnxruntime keeps after the first run is not of a session
    gc.collect()
    sessions, before, rows = list[Session](), held(), list[Row]()
    for count in settings["sessions"]:
        sessions += [_answer(Session(loaded), settings) for _ in range(count - len(sessions))]
        total = held(before)
        ids = text_ids(sessions[0], settings["prompt"])
        cost = round_cost(sessions[0], ids, settings["rounds"])
        speed, slowest = _all_at_once(sessions, settings)
        rows.append({"sessions": count, "held": total, "each": total / count, "round": cost.whole})
        rows[-1] |= {"speed": speed, "slowest": slowest}
    sessions.clear()
    gc.collect()
    left = held(before)
    return [row | {"left": left} for row in rows]


def _answer(session: Session, settings: Settings) -> Session:
    """The session, after it answered a text."""
    ids = text_ids(session, settings["prompt"])
    session.generate(
        ids, max_new_tokens=settings["tokens"], num_draft_tokens=DRAFTED, ignore_eos=True
    ).finish()
    return session


def _all_at_once(sessions: Sequence[Session], settings: Settings) -> tuple[float, float]:
    """Tokens a second of all sessions together, each in a thread, and seconds of the slowest of them."""
    seconds, failed = list[float](), list[BaseException]()
    start = threading.Barrier(len(sessions) + 1)

    def work(session: Session) -> None:
        try:
            start.wait()
            started = time.perf_counter()
            _answer(session, settings)
            seconds.append(time.perf_counter() - started)
        except BaseException as error:  # of a thread: raised again below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    start.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return len(sessions) * settings["tokens"] / (time.perf_counter() - started), max(seconds)


AXIS = Axis(
    "sessions",
    "sessions on one loaded bundle",
    "sessions",
    points,
    measure,
    (
        Column("sessions", "sessions", ".0f"),
        Column("memory of all, MB", "held", ".1f"),
        Column("of each, MB", "each", ".1f"),
        Column("left when all are dropped, MB", "left", ".1f"),
        Column("round of one, others idle, ms", "round"),
        Column("all at once, tokens a second", "speed", ".0f"),
        Column("slowest answer, s", "slowest"),
    ),
    (
        Panel("ms a round; tokens a second", {"round of one": "round", "all at once, tokens/s": "speed"}),
        Panel("MB", {"all sessions": "held", "each": "each"}),
    ),
)
