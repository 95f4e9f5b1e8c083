"""Learning rate, running mean, guard, end of an interval: spec/13-learner.md, "The rate" and "Online"."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vectorlib.reference.random_source import TooClose

Answer = tuple[int, int]  # emitted tokens, target passes


def rate(schedule: str, highest: float, step: int, total: int) -> float:
    """The learning rate of a step."""
    if schedule == "constant":
        return highest
    rising, falling = (step + 1) / max(1.0, 0.05 * total), (total - step) / max(1.0, 0.3 * total)
    return highest * min(1.0, rising, falling)


def mean_of(steps: Sequence[list[float] | None]) -> list[list[float] | None]:
    """The running mean after each step; None stands for a skipped step, and for no mean so far."""
    means: list[list[float] | None] = []
    mean: list[float] | None = None
    done = 0
    for latest in steps:
        if latest is not None:
            k = min(0.9, done / (done + 9))
            mean = [m * k + x * (1 - k) for m, x in zip(mean or latest, latest, strict=True)]
            done += 1
        means.append(mean)
    return means


@dataclass
class Guard:
    """Two windows of answers, and the verdict at the end of an interval."""

    options: dict[str, float]
    reference: list[Answer] = field(default_factory=list)
    current: list[Answer] = field(default_factory=list)

    def verdict(self) -> str:
        """good, worse or unsure; good starts a new window."""
        window = int(self.options["window"])
        if len(self.current) < self.options["least"]:
            return "unsure"
        if not self.reference:
            return self._good(self.current[-window:])
        if self._is_worse():
            return "worse"
        if ratio(self.current) >= ratio(self.reference):
            return self._good([*self.reference, *self.current][-window:])
        return self._good(self.current[-window:]) if len(self.current) >= window else "unsure"

    def reset(self) -> None:
        self.reference, self.current = [], []

    def _good(self, reference: list[Answer]) -> str:
        self.reference, self.current = reference, []
        return "good"

    def _is_worse(self) -> bool:
        before, after = self.reference, self.current
        difference, least = ratio(before) - ratio(after), self.options["fall"] * ratio(before)
        _check_distance(difference, least)
        if difference <= least:
            return False
        a, b = variance(before), variance(after)
        if a + b == 0.0:
            return True
        v = (a + b) ** 2 / (a**2 / (len(before) - 1) + b**2 / (len(after) - 1))
        bound = student_t(self.options["deviations"], v) * math.sqrt(a + b)
        _check_distance(difference, bound)
        return difference > bound


def ratio(answers: Sequence[Answer]) -> float:
    """Emitted tokens per target pass."""
    return sum(tokens for tokens, _ in answers) / sum(passes for _, passes in answers)


def variance(answers: Sequence[Answer]) -> float:
    """Of the ratio."""
    n, r = len(answers), ratio(answers)
    squares = math.fsum((tokens - r * passes) ** 2 for tokens, passes in answers)
    return n / (n - 1) * squares / sum(passes for _, passes in answers) ** 2


def student_t(z: float, v: float) -> float:
    """Student's quantile for v degrees of freedom: an expansion in the normal quantile z (15-sync.md)."""
    t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
    return t + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)


def _check_distance(value: float, edge: float) -> None:
    if abs(value - edge) < 1e-9 * max(1.0, abs(edge)):
        raise TooClose(f"{value} against {edge}")


@dataclass
class Intervals:
    """The versions of an adapter that learns, and what happens to them at the end of each interval.

    Attributes:
        max_memory: number of answers that are kept.
        version: of the adapter in use; 0 for none.
        good: the last version with the verdict good.
        learned: number of versions so far.
        rollbacks: in a row.
        cooldown: intervals without learning that are left.
        rate_scale: factor of the learning rate.
        memory: numbers of the answers to learn from again.
    """

    guard: Guard
    max_memory: int
    answered: int = 0
    version: int = 0
    good: int = 0
    learned: int = 0
    rollbacks: int = 0
    cooldown: int = 0
    rate_scale: float = 1.0
    memory: list[int] = field(default_factory=list)

    def end(self, answers: Sequence[Answer], outcome: str) -> dict[str, Any]:
        """End an interval: learned, skipped, rested or rolled back. Returns the event and the new state."""
        self.guard.current += answers
        pending = [self.answered + 1 + i for i in range(len(answers))]
        self.answered += len(answers)
        verdict = self.guard.verdict()
        event = self._event(verdict, pending, outcome)
        return {
            "verdict": verdict, "event": event, "version": self.version, "good": self.good,
            "learned": self.learned, "falls": self.rollbacks, "rest": self.cooldown, "slow": self.rate_scale,
            "memory": list(self.memory),
        }  # fmt: skip

    def _event(self, verdict: str, pending: list[int], outcome: str) -> str:
        on_trial = self.version != self.good
        if verdict == "worse":
            if on_trial:
                return self._roll_back(pending)
            self.guard.reset()
        if verdict == "good" and on_trial:
            self.good, self.rollbacks = self.version, 0
            self.rate_scale = min(1.0, self.rate_scale * 1.25)
        self._remember(pending)
        if self.cooldown:
            self.cooldown -= 1
            return "rested"
        if outcome == "not finite":
            return self._roll_back([])
        if outcome == "learned":
            self.learned += 1
            self.version = self.learned
        return outcome

    def _roll_back(self, pending: list[int]) -> str:
        self.rollbacks += 1
        self.cooldown, self.rate_scale = min(2 ** (self.rollbacks - 1), 32), self.rate_scale / 2
        self.version = self.good
        self._remember(pending)
        self.guard.reset()
        return "rolled back"

    def _remember(self, pending: list[int]) -> None:
        answers = [*self.memory, *pending]
        self.memory = answers[max(0, len(answers) - self.max_memory) :]
