"""The learning rate over a pass: constant, or with a warm-up and a decay to 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from omnidraft import defaults
from omnidraft.errors import SettingError

Schedule = Literal["constant", "decay"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
WARM_UP, DECAY = defaults.LEARNER_WARM_UP, defaults.LEARNER_DECAY  # shares of a pass


def check_schedule(schedule: str) -> None:
    """
    Raises:
        SettingError: the name is unknown.
    """
    if schedule not in SCHEDULES:
        raise SettingError(f'schedule "{schedule}" is unknown', "use constant or decay", setting="schedule")


def check_least(options: object, least: Mapping[str, float], usual: Mapping[str, float]) -> None:
    """Refuse an option that is less than its least value, infinite or not a number.

    Raises:
        SettingError: naming the value.
    """
    for name, at_least in least.items():
        value = getattr(options, name)
        if not at_least <= value < float("inf"):
            raise SettingError(
                f"{name} {value} is not a number of at least {at_least}",
                f"{usual[name]} is usual",
                setting=name,
            )


def rate_at(schedule: Schedule, rate: float, step: int, total: int) -> float:
    """The learning rate of a step.

    Args:
        schedule: "constant", as in the paper, for learning without an end; "decay" rises over the first 5 %
            of the steps and falls to 0 over the last 30 %.
        step: from 0.
    """
    if schedule == "constant":
        return rate
    rising = (step + 1) / max(1.0, WARM_UP * total)
    falling = (total - step) / max(1.0, DECAY * total)
    return rate * min(1.0, rising, falling)
