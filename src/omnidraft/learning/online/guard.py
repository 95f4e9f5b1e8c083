"""A statistical test of whether an adapter drafts worse than the one before; numpy only.

The measure is tokens per target pass, a ratio of sums over a window of answers. The sample is the answers,
not the tokens: the tokens of one answer are correlated. The test uses no clock and no randomness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from omnidraft import defaults
from omnidraft.learning.student_t import student_t

GuardVerdict = Literal["good", "unsure", "worse"]
AnswerCounts = tuple[int, int]  # emitted tokens, target passes


@dataclass(frozen=True)
class GuardOptions:
    """When an adapter counts as worse.

    Attributes:
        least: answers in a window before it is judged, >= 2.
        deviations: confidence as one-sided normal standard deviations; 3.3 is wrong 1 time in 2,000.
        fall: the smallest decrease that counts, as a share of the value before.
    """

    least: int = defaults.LEARNER_GUARD_LEAST
    window: int = defaults.LEARNER_GUARD_WINDOW
    deviations: float = defaults.LEARNER_GUARD_DEVIATIONS
    fall: float = defaults.LEARNER_GUARD_FALL


class Guard:
    """Compares the answers since the last change that was found good with the answers before it.

    A window is good if it is not lower than the reference, or if it is full and not significantly lower. A
    window that is not lower joins the reference. A single unlucky sample therefore passes, and a series of
    small losses does not.
    """

    def __init__(self, options: GuardOptions | None = None) -> None:
        self.options = options or GuardOptions()
        self._reference: list[AnswerCounts] = []
        self._current: list[AnswerCounts] = []

    def observe(self, tokens: int, passes: int) -> None:
        """Record one answer.

        Args:
            passes: target passes, >= 1.
        """
        self._current.append((tokens, passes))

    def judge(self) -> GuardVerdict:
        """Judge the adapter in use by the answers since the last "good"; called at the end of an interval."""
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
        if len(current) >= options.window:  # slightly lower, or chance: this is the new reference
            self._reference, self._current = current[-options.window :], []
            return "good"
        return "unsure"

    def forget(self) -> None:
        """Drop all answers, where they no longer predict those to come."""
        self._reference, self._current = [], []

    def state(self) -> dict[str, Any]:
        """The recorded answers as JSON values."""
        return {"reference": [list(a) for a in self._reference], "current": [list(a) for a in self._current]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a `state()`.

        Raises:
            ValueError: the value is not a state; the guard is unchanged.
        """
        reference, current = (_answers(state.get(name)) for name in ("reference", "current"))
        self._reference, self._current = reference, current


def ratio(answers: Sequence[AnswerCounts]) -> float:
    """Tokens per target pass over at least one answer."""
    return sum(tokens for tokens, _ in answers) / sum(passes for _, passes in answers)


def is_worse(
    before: Sequence[AnswerCounts],
    after: Sequence[AnswerCounts],
    deviations: float = defaults.LEARNER_GUARD_DEVIATIONS,
    fall: float = 0.0,
) -> bool:
    """Whether tokens per target pass decreased significantly: Welch's test, one-sided, on two windows."""
    lower = ratio(before) - ratio(after)
    if lower <= fall * ratio(before):
        return False
    a, b = _variance(before), _variance(after)
    if a + b == 0.0:
        return True
    freedom = (a + b) ** 2 / (a * a / (len(before) - 1) + b * b / (len(after) - 1))
    return lower > student_t(deviations, freedom) * math.sqrt(a + b)


def _variance(answers: Sequence[AnswerCounts]) -> float:
    """The variance of the ratio of sums by linearisation (Cochran, Sampling Techniques, chapter 6)."""
    values = np.asarray(answers, dtype=np.float64)
    tokens, passes = values[:, 0], values[:, 1]
    residuals = tokens - ratio(answers) * passes
    n = len(answers)
    return float((residuals @ residuals) * n / (n - 1) / passes.sum() ** 2)


def _answers(value: Any) -> list[AnswerCounts]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.40} is not a list of answers")
    answers = []
    for each in value:
        if not (isinstance(each, list) and len(each) == 2 and all(type(n) is int and n > 0 for n in each)):
            raise ValueError(f"{each!r:.40} is not an answer")
        answers.append((each[0], each[1]))
    return answers
