"""Rounds of real sessions: CPU time by parts, and text of any length to begin with."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.growth.axis import Column
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.api import Session
from omnidraft.sample_prompts import word_problems

DRAFTED = 4
WARM = 3  # rounds that are not counted
PASSES = 7  # of which the median is taken
COLUMNS = (  # of a `RoundCost`
    Column("round, ms", "whole"),
    Column("of it draft", "draft"),
    Column("target", "target"),
    Column("host", "host"),
)
HOST = ("translate", "verify", "learn")  # parts of a round outside the models


@dataclass(frozen=True)
class RoundCost:
    """Median CPU milliseconds of a round, in all and by parts.

    Attributes:
        whole: all parts.
        draft, target: the models.
        host: translation, verification, learning.
        emitted: target tokens a round.
        read_token: of a token of the prompt that the target read; 0 where it read none.
    """

    whole: float
    draft: float
    target: float
    host: float
    emitted: float
    read_token: float


def text_ids(session: Session, count: int) -> list[int]:
    """So many target ids of word problems."""
    ids = list[int]()
    seed = 0
    while len(ids) < count:
        ids += session.encode("\n".join(word_problems(64, seed)), raw=True)
        seed += 1
    return ids[:count]


def round_cost(session: Session, ids: Sequence[int], rounds: int, **settings: Any) -> RoundCost:
    """The cost of rounds that continue a text, greedily unless the settings say otherwise.

    Args:
        session: its clock becomes the CPU time of the thread, which is right while models run on one thread.
        ids: the text in target ids; what the session read of it before is not read again.
        rounds: that count.
        settings: of the generation, beside those of this measurement.
    """
    session.models.clock = time.thread_time
    given = {"num_draft_tokens": DRAFTED, "temperature": 0.0, **settings}
    generation = session.generate(ids, max_new_tokens=64 * (WARM + rounds), ignore_eos=True, **given)
    done = list[Round]()
    for piece in generation:
        if piece.round is not None:
            done.append(piece.round)
        if len(done) == WARM + rounds:
            break
    counted = done[WARM:]
    assert len(counted) == rounds, f"the context ended after {len(counted)} rounds of {rounds}"
    read = [r.read for r in done if r.read.tokens]
    seconds = sum(r.seconds for r in read) / max(1, sum(r.tokens for r in read))
    return RoundCost(
        whole=milliseconds([seconds_of(r, "draft", "target", *HOST) for r in counted]),
        draft=milliseconds([seconds_of(r, "draft") for r in counted]),
        target=milliseconds([seconds_of(r, "target") for r in counted]),
        host=milliseconds([seconds_of(r, *HOST) for r in counted]),
        emitted=sum(len(r.emitted) for r in counted) / rounds,
        read_token=1e3 * seconds,
    )


def pass_cost(session: Session, tokens: Sequence[int]) -> float:
    """Median CPU milliseconds of a target pass over some tokens, from where the session's text ended."""
    target, length = session.models.target, session.models.target.length
    seconds = list[float]()
    for _ in range(PASSES):
        started = time.thread_time()
        target.score(tokens)
        seconds.append(time.thread_time() - started)
        target.rewind(length)
    return milliseconds(seconds)


def seconds_of(done: Round, *parts: str) -> float:
    """CPU seconds of parts of a round."""
    return sum(float(getattr(done.seconds, part)) for part in parts)


def milliseconds(seconds: Sequence[float]) -> float:
    """The median of some seconds, in milliseconds."""
    return 1e3 * statistics.median(seconds)
