"""The end of an interval: judge the adapter, roll it back, pause, or learn the next (spec/13-learner.md).

After each rollback in a row the pause is longer; where the texts have
changed and no adapter is at fault, the guard starts over.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from omnidraft import defaults
from omnidraft.errors import AdapterError
from omnidraft.learning.online.adapted_target import AdaptedTarget, AdaptOptions
from omnidraft.learning.online.curve import Event
from omnidraft.learning.online.guard import Guard
from omnidraft.learning.online.profiles import AdaptationProgress

IntervalDecision = Literal["roll back", "cool down", "learn"]
BATCH = defaults.LEARNER_BATCH  # new answers in one step, as in the paper
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


def end_interval(target: AdaptedTarget, options: AdaptOptions) -> tuple[Event, float | None]:
    """Judge the adapter in use, then learn the next one.

    Args:
        target: the answers of the interval are pending.

    Returns:
        what happened; and the loss, None where nothing was learned.

    Raises:
        AdapterError: the learner's adapter does not fit the session.
    """
    new, earlier = target.progress.pending, target.progress.memory
    decision, is_good = decide(target.progress, target.guard, options.memory)
    if is_good:
        target.keep_good()
    if decision == "roll back":
        target.go_back()
        return "rolled back", None
    return ("rested", None) if decision == "cool down" else _learn(target, options, new, earlier)


def _learn(
    target: AdaptedTarget, options: AdaptOptions, new: list[int], earlier: list[int]
) -> tuple[Event, float | None]:
    try:
        loss = _steps(target, options, new, earlier)
        if loss is None:
            return "skipped", None
        target.learner.adapter()  # raises if a value is not finite
        count_version(target.progress)
        target.forget_answers()
        target.swap_in()
    except AdapterError as error:
        if error.fault != "non_finite":
            raise
        roll_back(target.progress, target.guard, options.memory)
        target.go_back()
        return "rolled back", None
    return "learned", loss


def _steps(target: AdaptedTarget, options: AdaptOptions, new: list[int], earlier: list[int]) -> float | None:
    """The loss of the last finite step; None where no step was finite."""
    loss = None
    draw = np.random.default_rng([options.seed, target.progress.learned])
    for _ in range(options.passes):
        for at in range(0, len(new), BATCH):
            count = min(options.replayed, len(earlier))
            again = [earlier[i] for i in draw.choice(len(earlier), count, replace=False)] if count else []
            batch = [a for n in (*new[at : at + BATCH], *again) for a in target.aligned.get(n, [])]
            if batch:
                step = target.learner.learn(batch)
                loss = loss if step.skipped else step.loss
    return loss
