"""What is done with an adapter that learns: rate, mean, guard and the ends of intervals (spec/learner.md)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vectorlib.reference.random_source import TooClose

Answer = tuple[int, int]  # emitted tokens, target passes


def rate(schedule: str, highest: float, step: int, total: int) -> float:
    if schedule == "constant":
        return highest
    rising, falling = (step + 1) / max(1.0, 0.05 * total), (total - step) / max(1.0, 0.3 * total)
    return highest * min(1.0, rising, falling)


def mean_of(steps: Sequence[list[float] | None]) -> list[list[float] | None]:
    """The mean after each step; None: the step was skipped."""
    found: list[list[float] | None] = []
    mean: list[float] | None = None
    done = 0
    for latest in steps:
        if latest is not None:
            k = min(0.9, done / (done + 9))
            mean = [m * k + x * (1 - k) for m, x in zip(mean or latest, latest, strict=True)]
            done += 1
        found.append(mean)
    return found


@dataclass
class Guard:
    """Windows of answers, and the verdict at the end of an interval."""

    options: dict[str, float]
    reference: list[Answer] = field(default_factory=list)
    current: list[Answer] = field(default_factory=list)

    def judge(self) -> str:
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

    def forget(self) -> None:
        self.reference, self.current = [], []

    def _good(self, reference: list[Answer]) -> str:
        self.reference, self.current = reference, []
        return "good"

    def _is_worse(self) -> bool:
        before, after = self.reference, self.current
        lower, least = ratio(before) - ratio(after), self.options["fall"] * ratio(before)
        _clear(lower, least)
        if lower <= least:
            return False
        a, b = variance(before), variance(after)
        if a + b == 0.0:
            return True
        v = (a + b) ** 2 / (a**2 / (len(before) - 1) + b**2 / (len(after) - 1))
        bound = expansion(self.options["deviations"], v) * math.sqrt(a + b)
        _clear(lower, bound)
        return lower > bound


def ratio(answers: Sequence[Answer]) -> float:
    return sum(tokens for tokens, _ in answers) / sum(passes for _, passes in answers)


def variance(answers: Sequence[Answer]) -> float:
    n, r = len(answers), ratio(answers)
    squares = math.fsum((tokens - r * passes) ** 2 for tokens, passes in answers)
    return n / (n - 1) * squares / sum(passes for _, passes in answers) ** 2


def expansion(z: float, v: float) -> float:
    """Of Student's t, as in spec/sync.md."""
    found = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
    return found + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)


def _clear(value: float, border: float) -> None:
    if abs(value - border) < 1e-9 * max(1.0, abs(border)):
        raise TooClose(f"{value} against {border}")


@dataclass
class Course:
    """One target that a drafter is adapted to, at the ends of its intervals."""

    guard: Guard
    most: int  # answers that are kept
    answered: int = 0
    version: int = 0
    good: int = 0
    learned: int = 0
    falls: int = 0
    rest: int = 0
    slow: float = 1.0
    memory: list[int] = field(default_factory=list)

    def interval(self, answers: Sequence[Answer], outcome: str) -> dict[str, Any]:
        """What happens: learned, skipped, rested or rolled back; and how things stand then."""
        self.guard.current += answers
        pending = [self.answered + 1 + i for i in range(len(answers))]
        self.answered += len(answers)
        verdict = self.guard.judge()
        event = self._end(verdict, pending, outcome)
        return {
            "verdict": verdict, "event": event, "version": self.version, "good": self.good,
            "learned": self.learned, "falls": self.falls, "rest": self.rest, "slow": self.slow,
            "memory": list(self.memory),
        }  # fmt: skip

    def _end(self, verdict: str, pending: list[int], outcome: str) -> str:
        tried = self.version != self.good
        if verdict == "worse":
            if tried:
                return self._roll_back(pending)
            self.guard.forget()
        if verdict == "good" and tried:
            self.good, self.falls, self.slow = self.version, 0, min(1.0, self.slow * 1.25)
        self._remember(pending)
        if self.rest:
            self.rest -= 1
            return "rested"
        if outcome == "not finite":
            return self._roll_back([])
        if outcome == "learned":
            self.learned += 1
            self.version = self.learned
        return outcome

    def _roll_back(self, pending: list[int]) -> str:
        self.falls += 1
        self.rest, self.slow, self.version = min(2 ** (self.falls - 1), 32), self.slow / 2, self.good
        self._remember(pending)
        self.guard.forget()
        return "rolled back"

    def _remember(self, pending: list[int]) -> None:
        everything = [*self.memory, *pending]
        self.memory = everything[max(0, len(everything) - self.most) :]
