"""Decide at the end of an interval: keep the adapter, roll it back, pause or learn (spec/13-learner.md).

The functions change counts alone. After each rollback in a row the pause is longer; where the texts have
changed and no adapter is at fault, the guard starts over.
"""

from __future__ import annotations

from typing import Literal

from omnidraft import defaults
from omnidraft.learning.online.guard import Guard
from omnidraft.learning.online.profiles import AdaptationProgress

IntervalDecision = Literal["roll back", "cool down", "learn"]
MAX_COOLDOWN = defaults.LEARNER_MAX_REST  # intervals
ROLLBACK_SCALE = defaults.LEARNER_SLOWER  # factor of the learning rate at a rollback
RECOVERY_SCALE = defaults.LEARNER_RECOVERY  # factor at an adapter that is found good, up to the full rate


def decide(progress: AdaptationProgress, guard: Guard, memory: int) -> tuple[IntervalDecision, bool]:
    """Judge the adapter in use and decide what comes next.

    Args:
        progress: with the answers of the interval pending; it is changed.

    Returns:
        the decision; and whether the adapter in use was found good, so that a rollback goes back to it.
    """
    verdict, is_new = guard.judge(), progress.version != progress.good
    if verdict == "worse" and is_new:
        roll_back(progress, guard, memory)
        return "roll back", False
    if verdict == "worse":  # no new adapter is in use, so the texts have changed
        guard.forget()
    is_good = verdict == "good" and is_new
    if is_good:
        progress.good, progress.rollbacks = progress.version, 0
        progress.rate_scale = min(1.0, progress.rate_scale * RECOVERY_SCALE)
    _remember(progress, memory)
    if progress.cooldown:
        progress.cooldown -= 1
        return "cool down", is_good
    return "learn", is_good


def roll_back(progress: AdaptationProgress, guard: Guard, memory: int) -> None:
    """Go back to the last good adapter and pause learning: its answers become the guard's reference."""
    progress.rollbacks += 1
    progress.cooldown = min(2 ** (progress.rollbacks - 1), MAX_COOLDOWN)
    progress.rate_scale *= ROLLBACK_SCALE
    progress.version = progress.good
    _remember(progress, memory)
    guard.forget()


def count_version(progress: AdaptationProgress) -> None:
    """Count a version that was learned and is in use from now on."""
    progress.learned += 1
    progress.version = progress.learned


def _remember(progress: AdaptationProgress, memory: int) -> None:
    """Keep the answers of this interval to learn from again; drop the oldest beyond `memory`."""
    answers = [*progress.memory, *progress.pending]
    progress.memory, progress.pending = answers[len(answers) - min(len(answers), memory) :], []
