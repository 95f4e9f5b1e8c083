"""When a trained head ends a draft. A port may leave this file out; it then never asks a head.

Everything drawn is in the draft, so stopping early changes no distribution, only speed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

PRIOR_ROUNDS = 4.0  # weight of what is assumed before the first round, in rounds


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


class Estimate(Protocol):
    """Costs and acceptance as the measured draft length estimates them."""

    @property
    def longest(self) -> int:
        """Draft tokens of a round at most."""

    def chances(self, count: int) -> Sequence[float]:
        """The probability that each of the first draft tokens is accepted, given those before it."""

    def ratio(self) -> float:
        """Accepted target tokens for each accepted draft token."""

    def speed(self, count: int) -> float:
        """Expected target tokens a second with `count` draft tokens."""

    def round_seconds(self, count: int) -> float:
        """Seconds of a round with `count` draft tokens."""


@dataclass
class EarlyStop:
    """Ends the drafts of a measured draft length where the next token does not pay.

    Attributes:
        threshold: stop where a token is refused with a larger probability; None compares expected tokens
            with expected seconds.
        draft_seconds: of one draft token.
        decay: weight of a round after the next one, relative to before.
        emitted: decayed target tokens of rounds in which the head was asked; 0 before the first.
        seconds: decayed seconds of those rounds.
        asked_at: draft tokens drawn when the head was last asked in this round.
    """

    threshold: float | None
    draft_seconds: float
    decay: float
    emitted: float = 0.0
    seconds: float = 0.0
    asked_at: int = 0

    def more(self, estimate: Estimate, drawn: int, survival: float) -> int:
        """How many draft tokens to draw after `drawn`; see `DraftLength.more`."""
        self.asked_at, left = drawn, estimate.longest - drawn
        if self.threshold is not None:
            return 0 if 1.0 - survival > self.threshold else left
        chances, ratio, worth = estimate.chances(drawn + left), estimate.ratio(), self._worth(estimate)
        before = estimate.round_seconds(drawn) + self.draft_seconds
        gain, best, count = 0.0, 0.0, 0
        for n in range(1, left + 1):
            survival *= chances[drawn + n - 1]
            gain += ratio * survival
            # The distribution of the next token is known already, so it takes no pass of the drafter.
            value = gain - worth * (estimate.round_seconds(drawn + n) - before)
            if value > best:
                best, count = value, n
        return count

    def record(self, estimate: Estimate, drafted: int, emitted: int) -> None:
        """Take in a round that drafted: its tokens and its seconds, where the head was asked."""
        asked_at, self.asked_at = self.asked_at, 0
        if not asked_at:
            if drafted > 1:  # the head would have been asked, so it was taken away
                self.emitted = self.seconds = 0.0
            return
        if not self.seconds:  # the assumption before the first round
            best = max(range(1, estimate.longest + 1), key=estimate.speed)
            self.seconds = PRIOR_ROUNDS * estimate.round_seconds(best)
            self.emitted = self.seconds * estimate.speed(best)
        passes = max(drafted, asked_at + 1)  # of the drafter: the last pass may have drawn nothing
        seconds = estimate.round_seconds(drafted) + (passes - drafted) * self.draft_seconds
        self.emitted = self.emitted * self.decay + emitted
        self.seconds = self.seconds * self.decay + seconds

    def _worth(self, estimate: Estimate) -> float:
        """Target tokens that a second is worth: those of the rounds so far, at least of plain decoding."""
        if self.seconds:
            return max(estimate.speed(0), self.emitted / self.seconds)
        return max(estimate.speed(count) for count in range(estimate.longest + 1))
