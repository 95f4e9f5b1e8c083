"""How many threads a pass runs on."""

import os

from omnidraft.errors import SettingError, check_whole

THREADS_PER_CORE = 4  # at most; more only take memory and time


def check_threads(threads: int) -> None:
    """Refuse a number of threads that this machine would only suffer from.

    Raises:
        SettingError: no whole number, fewer than one, or more than four for each core.
    """
    check_whole("threads", threads)
    most = THREADS_PER_CORE * (os.cpu_count() or 1)
    if not 1 <= threads <= most:
        raise SettingError(
            f"threads {threads} is outside 1..{most}, {THREADS_PER_CORE} for each core of this machine",
            "leave it out, and the target's size decides",
            setting="threads",
        )


def threads_for(parameters: int) -> int:
    """Threads of a target pass; waking threads costs a small model more time than they save."""
    return 1 if parameters < 50_000_000 else min(8, os.cpu_count() or 1)


def drafter_threads(parameters: int, target: int) -> int:
    """Threads of a drafter's pass, beside a target's; two where it reads megabytes of weights."""
    return min(2, target) if parameters >= 4_000_000 else 1
