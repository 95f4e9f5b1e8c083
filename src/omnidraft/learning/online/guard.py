"""Whether an adapter drafts worse than the one before: a test on windows of answers that chance seldom fails.

The measure is tokens per target pass, a ratio of sums over the answers of a window. Its variance is that of
answers, not of tokens: those of one answer go well or badly together. numpy only, no clock, no randomness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Verdict = Literal["good", "unsure", "worse"]
Answer = tuple[int, int]  # emitted tokens, target passes


@dataclass(frozen=True)
class GuardOptions:
    """When an adapter is found worse.

    Attributes:
        least: answers that a window needs before it is judged, >= 2.
        window: answers that it holds at most.
        deviations: how sure, as normal standard deviations on one side: 3.3 is wrong 1 time in 2,000.
        fall: the smallest fall that counts, as a share of what it was.
    """

    least: int = 8
    window: int = 32
    deviations: float = 3.3
    fall: float = 0.02


class Guard:
    """Compares the answers since the last change that was found good with those before it.

    A window that is no lower than the reference, or full without being surely lower, is good and joins the
    reference. So the small steps down of an unlucky sample pass, and many of them together do not.
    """

    def __init__(self, options: GuardOptions | None = None) -> None:
        """The usual options when None."""
        self.options = options or GuardOptions()
        self._reference: list[Answer] = []
        self._current: list[Answer] = []

    def observe(self, tokens: int, passes: int) -> None:
        """Note one answer: tokens that were emitted, and target passes that they took (>= 1)."""
        self._current.append((tokens, passes))

    def judge(self) -> Verdict:
        """What the answers since the last "good" say of the adapter in use; at the end of an interval."""
        reference, current, options = self._reference, self._current, self.options
        if len(current) < options.least:
            return "unsure"
        if not reference:
            self._reference, self._current = current[-options.window :], []
            return "good"
        if is_worse(reference, current, options.deviations, options.fall):
            return "worse"
        if ratio(current) >= ratio(reference):
            self._reference, self._current = [*reference, *current][-options.window :], []
            return "good"
        if len(current) >= options.window:  # a little lower, or chance: this is the level now
            self._reference, self._current = current[-options.window :], []
            return "good"
        return "unsure"

    def forget(self) -> None:
        """Begin anew, where what was observed no longer says what is to be expected."""
        self._reference, self._current = [], []

    def state(self) -> dict[str, Any]:
        """What was observed, as JSON can hold it."""
        return {"reference": [list(a) for a in self._reference], "current": [list(a) for a in self._current]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state()`.

        Raises:
            ValueError: it is none; nothing was taken over.
        """
        found = {name: _answers(state.get(name)) for name in ("reference", "current")}
        self._reference, self._current = found["reference"], found["current"]


def ratio(answers: Sequence[Answer]) -> float:
    """Tokens per target pass over some answers, at least one."""
    return sum(tokens for tokens, _ in answers) / sum(passes for _, passes in answers)


def is_worse(
    before: Sequence[Answer], after: Sequence[Answer], deviations: float = 3.3, fall: float = 0.0
) -> bool:
    """Whether tokens per target pass surely fell: Welch's test, one-sided, on two windows.

    Args:
        before, after: at least two answers each.
        deviations: how sure, in normal standard deviations.
        fall: the smallest fall that counts, as a share of what it was.
    """
    lower = ratio(before) - ratio(after)
    if lower <= fall * ratio(before):
        return False
    a, b = _variance(before), _variance(after)
    if a + b == 0.0:
        return True
    freedom = (a + b) ** 2 / (a * a / (len(before) - 1) + b * b / (len(after) - 1))
    return lower > students(deviations, freedom) * math.sqrt(a + b)


def students(deviations: float, freedom: float) -> float:
    """The quantile of Student's t where a normal variable has `deviations` (Cornish and Fisher's expansion).

    With 7 degrees of freedom 3 becomes 4.51 (exactly 4.53), with 30 it becomes 3.27.
    """
    z, v = deviations, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def _variance(answers: Sequence[Answer]) -> float:
    """Of a ratio of sums, by linearisation: answers are the sample."""
    values = np.asarray(answers, dtype=np.float64)
    tokens, passes = values[:, 0], values[:, 1]
    left = tokens - ratio(answers) * passes
    n = len(answers)
    return float((left @ left) * n / (n - 1) / passes.sum() ** 2)


def _answers(value: Any) -> list[Answer]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.40} is no list of answers")
    found = []
    for each in value:
        if not (isinstance(each, list) and len(each) == 2 and all(type(n) is int and n > 0 for n in each)):
            raise ValueError(f"{each!r:.40} is no answer")
        found.append((each[0], each[1]))
    return found
