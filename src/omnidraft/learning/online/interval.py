"""What the end of an interval does with an adapter: keep it, roll back, rest, learn on (spec/learner.md).

Pure counts: whoever holds the session and the learner does what is said here. So a rolled back adapter rests
longer each time, and where the texts have changed and no adapter was at fault, the expectation is of the new
texts.
"""

from __future__ import annotations

from typing import Literal

from omnidraft.learning.online.guard import Guard
from omnidraft.learning.online.profiles import Progress

Ending = Literal["roll back", "rest", "learn"]
MAX_REST = 32  # intervals
SLOWER, RECOVERY = 0.5, 1.25  # of the rate: at a roll-back, and at every adapter that is found good


def end_interval(progress: Progress, guard: Guard, most: int) -> tuple[Ending, bool]:
    """Judge the adapter in use, and settle what comes next.

    Args:
        progress: its answers of this interval pending; it is changed.
        guard: that observed them.
        most: answers to keep.

    Returns:
        what to do; and whether the adapter in use was found good, so that it is what to go back to.
    """
    verdict, tried = guard.judge(), progress.version != progress.good
    if verdict == "worse" and tried:
        roll_back(progress, guard, most)
        return "roll back", False
    if verdict == "worse":  # no new adapter is in use, so the texts have changed
        guard.forget()
    is_good = verdict == "good" and tried
    if is_good:
        progress.good, progress.falls = progress.version, 0
        progress.slow = min(1.0, progress.slow * RECOVERY)
    _remember(progress, most)
    if progress.rest:
        progress.rest -= 1
        return "rest", is_good
    return "learn", is_good


def roll_back(progress: Progress, guard: Guard, most: int) -> None:
    """Back to the last good adapter, which drafts alone for a while: its answers are what to expect."""
    progress.falls += 1
    progress.rest = min(2 ** (progress.falls - 1), MAX_REST)
    progress.slow *= SLOWER
    progress.version = progress.good
    _remember(progress, most)
    guard.forget()


def take_up(progress: Progress) -> None:
    """Another version was learned and is in use from now on."""
    progress.learned += 1
    progress.version = progress.learned


def _remember(progress: Progress, most: int) -> None:
    """Keep this interval's answers to learn from again; the oldest go."""
    found = [*progress.memory, *progress.pending]
    progress.memory, progress.pending = found[len(found) - min(len(found), most) :], []
