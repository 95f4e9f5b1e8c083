"""When a trained head ends a draft. A port may leave this file out; it then never asks a head.

Everything drawn is in the draft, so stopping early changes no distribution, only speed.
"""

from collections.abc import Sequence


def survival_of(acceptance: float, confidence: float) -> float:
    """The probability that a draft token is accepted: the odds of both arguments multiplied.

    Args:
        acceptance: output of the head; 1 of an untrained head, and then nothing is refused.
        confidence: probability of the token in the drafter's distribution that it was drawn from, at
            temperature 1.
    """
    if acceptance >= 1.0:
        return 1.0
    odds_for, odds_against = acceptance * confidence, (1.0 - acceptance) * (1.0 - confidence)
    return odds_for / (odds_for + odds_against) if odds_for + odds_against > 0.0 else 0.5


def more_tokens(gains: Sequence[float], seconds: Sequence[float], worth: float) -> int:
    """How many more draft tokens pay; 0 where none does.

    Args:
        gains: target tokens that draft token 1, 2, ... more is expected to give.
        seconds: that 1, 2, ... more draft tokens take.
        worth: target tokens that a second gives otherwise.
    """
    total, best, count = 0.0, 0.0, 0
    for n, (gain, duration) in enumerate(zip(gains, seconds, strict=True), 1):
        total += gain
        value = total - worth * duration
        if value > best:
            best, count = value, n
    return count
