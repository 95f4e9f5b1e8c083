"""The end of an interval: judge the adapter in use, learn the next one, and use it (spec/13-learner.md)."""

from __future__ import annotations

import numpy as np

from omnidraft import defaults
from omnidraft.errors import AdapterError
from omnidraft.learning.online.adapted_target import AdaptedTarget, AdaptOptions
from omnidraft.learning.online.curve import Event
from omnidraft.learning.online.interval import count_version, decide, roll_back

BATCH = defaults.LEARNER_BATCH  # new answers in one step, as in the paper


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
