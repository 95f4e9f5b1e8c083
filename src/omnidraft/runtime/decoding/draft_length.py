"""How many tokens to draft in the next round: as many as pay, or none (method section 6).

Costs come from a measurement and acceptance from the rounds so far. No clock is read here, so equal inputs
give equal lengths.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.early_stop import PRIOR_ROUNDS, EarlyStop

MAX_DRAFT_TOKENS = 48
PRIOR_ACCEPTANCE = 0.6  # of a drafter that was never measured
_PROBE = 2  # draft tokens of a probe
_FIRST_SHARE, _LAST_SHARE = 0.03, 0.0025  # of the time since the last draft, what a probe may cost
_LAST_WAIT = 1024  # rounds without a draft after which a probe is made at any cost
_LONG_DECAY = 0.99  # of counts that outlast a text
_PRIOR_TOKENS = 64.0  # length of a text, before the first has ended


@dataclass(frozen=True)
class Costs:
    """Seconds on one device.

    Attributes:
        target: one target pass over n = 1, 2, ... tokens.
        draft: one draft token.
        host: the round's own work (translate, verify, learn, rewind).
        read: one token of a text that the drafter has not read.
        acceptance: not seconds: accepted draft tokens over evaluated ones, when last measured.
    """

    target: tuple[float, ...]
    draft: float
    host: float
    read: float = 0.0
    acceptance: float = PRIOR_ACCEPTANCE

    def round_seconds(self, num_draft_tokens: int) -> float:
        """Seconds of a round; passes longer than the measured ones continue at the mean slope."""
        n, measured = num_draft_tokens + 1, self.target
        if n <= len(measured):
            target = measured[n - 1]
        else:
            slope = (measured[-1] - measured[0]) / max(1, len(measured) - 1)
            target = measured[-1] + slope * (n - len(measured))
        return target + num_draft_tokens * self.draft + (self.host if num_draft_tokens else 0.0)


class DraftLength(Protocol):
    """Chooses the number of draft tokens of each round.

    Attributes:
        unread: estimated number of draft tokens of the text that the drafter has not read.
        stops_early: whether a trained head is asked.
    """

    unread: int
    stops_early: bool

    def next(self) -> int:
        """Draft tokens of the next round; 0 is plain decoding."""

    def more(self, drawn: int, survival: float) -> int:
        """How many more draft tokens to draw in a round whose drafter has a trained head.

        Args:
            drawn: draft tokens so far, at least 1.
            survival: probability that all of them are accepted, below 1.
        """

    def record(self, drafted: int, evaluated: int, accepted: int, emitted: int) -> None:
        """Learn from a round.

        Args:
            drafted, evaluated, accepted: draft tokens drawn, verified and accepted.
            emitted: target tokens.
        """

    def follow(self, before: "DraftLength") -> None:
        """Begin with what another one of this kind learned of earlier texts; nothing of another kind."""

    def state(self) -> dict[str, Any]:
        """Counters as plain values, for tests and logs."""


class FixedLength:
    """The same number in every round, or fewer where a head ends the draft."""

    def __init__(self, num_draft_tokens: int, head_threshold: float = 1.0) -> None:
        """
        Args:
            num_draft_tokens: of a round.
            head_threshold: stop where a draft token is refused with a larger probability; 1 never stops.
        """
        if not 0 <= num_draft_tokens <= MAX_DRAFT_TOKENS:
            raise SettingError(
                f"num_draft_tokens {num_draft_tokens} is outside 0..{MAX_DRAFT_TOKENS}",
                "4 is usual",
                setting="num_draft_tokens",
            )
        self._count, self._threshold, self.unread = num_draft_tokens, head_threshold, 0
        self.stops_early = head_threshold < 1.0

    def next(self) -> int:
        return self._count

    def more(self, drawn: int, survival: float) -> int:
        return 0 if 1.0 - survival > self._threshold else self._count - drawn

    def record(self, drafted: int, evaluated: int, accepted: int, emitted: int) -> None:
        """A fixed length has nothing to learn."""

    def follow(self, before: DraftLength) -> None:
        """A fixed length has nothing to learn."""

    def state(self) -> dict[str, Any]:
        return {}


class AcceptanceByDepth:
    """How often draft token j was evaluated and accepted, given those before it, as decayed counts.

    Attributes:
        evaluated, accepted: of this text, by depth. seen, survived: the same of many texts.
        reached: depths that were ever evaluated.
        draft_accepted, target_accepted: decayed draft tokens accepted, and target tokens emitted by them.
    """

    def __init__(self, prior: float, longest: int, decay: float) -> None:
        """
        Args:
            prior: acceptance before the first round. longest: draft tokens of a round at most.
            decay: weight of a round after the next one, relative to before.
        """
        self._prior, self._decay = prior, decay
        self.evaluated = [PRIOR_ROUNDS] * longest
        self.accepted = [PRIOR_ROUNDS * prior] * longest
        self.seen, self.survived = list(self.evaluated), list(self.accepted)
        self.reached = 0
        self.draft_accepted, self.target_accepted = PRIOR_ROUNDS, PRIOR_ROUNDS

    def record(self, evaluated: int, accepted: int, emitted: int) -> None:
        """Take in a round that drafted; see `DraftLength.record`."""
        # Of a refused target token only the first piece counts: a_j is the probability of draft token j given
        # that those before it were accepted.
        depths = min(evaluated, accepted + 1, len(self.evaluated))
        self.reached = max(self.reached, depths)
        for j in range(depths):
            self.evaluated[j] = self.evaluated[j] * self._decay + 1.0
            self.accepted[j] = self.accepted[j] * self._decay + (j < accepted)
            self.seen[j] = self.seen[j] * _LONG_DECAY + 1.0
            self.survived[j] = self.survived[j] * _LONG_DECAY + (j < accepted)
        self.draft_accepted = self.draft_accepted * self._decay + accepted
        self.target_accepted = self.target_accepted * self._decay + (emitted - 1)

    def follow(self, before: "AcceptanceByDepth") -> None:
        """Take over the counts of many texts; cap the weight of history, so that a text can differ."""
        self.seen, self.survived, self.reached = list(before.seen), list(before.survived), before.reached
        self.draft_accepted, self.target_accepted = before.draft_accepted, before.target_accepted
        self.evaluated = [min(seen, 1.0 / (1.0 - self._decay)) for seen in self.seen]
        counts = zip(self.evaluated, self.survived, self.seen, strict=True)
        self.accepted = [evaluated * survived / seen for evaluated, survived, seen in counts]

    def chances(self, count: int) -> list[float]:
        """The probability that each of the first draft tokens is accepted, given those before it."""
        chances, acceptance = [], self._prior
        for j in range(count):
            if j < self.reached:  # a depth that was never reached is taken to be like the one before it
                acceptance = self.accepted[j] / self.evaluated[j]
            chances.append(acceptance)
        return chances

    def ratio(self) -> float:
        """Target tokens for each accepted draft token: n-grams give less than one, expansions more."""
        return min(1.5, self.target_accepted / self.draft_accepted) if self.draft_accepted > 1e-9 else 1.0


class MeasuredLength:
    """Maximises expected tokens a second, from measured costs and running acceptance by depth.

    After a choice of 0 it drafts a little now and then, to notice when the text changes. A probe waits until
    it costs a small share of the time that passed without one. Each probe that changes nothing halves the
    share, so a drafter that never helps costs a few percent at first and soon almost nothing.
    """

    def __init__(
        self,
        costs: Costs,
        *,
        unread: int = 0,
        limit: int | None = None,
        longest: int = 12,
        decay: float = 0.95,
        head_threshold: float | None = None,
    ) -> None:
        """
        Args:
            costs: of this device.
            unread: draft tokens of the text so far that the drafter has not read.
            limit: target tokens that may be emitted, where that is known.
            longest: draft tokens of a round at most.
            decay: weight of a round after the next one, relative to before.
            head_threshold: as of `FixedLength`; None stops where the next token does not pay.
        """
        self._costs, self.longest = costs, longest
        self._acceptance = AcceptanceByDepth(costs.acceptance, longest, decay)
        self._head = EarlyStop(head_threshold, costs.draft, decay)
        self.stops_early = head_threshold is None or head_threshold < 1.0
        self.unread, self._limit = unread, limit
        self._usual, self._emitted = _PRIOR_TOKENS, 0  # target tokens of a usual text, and of this one so far
        self._idle, self._share = 0, _FIRST_SHARE  # rounds since the last draft; see `_FIRST_SHARE`
        self._best: int | None = None  # the choice by the present counts, once it was asked for

    def next(self) -> int:
        if self._best is None:
            self._best = self._best_length()
        if self._best:
            self._idle, self._share = 0, _FIRST_SHARE
            return self._best
        saved = self._share * self._idle * self._costs.target[0]
        if saved < self._probe_seconds() and self._idle < _LAST_WAIT:
            self._idle += 1
            return 0
        self._idle, self._share = 0, max(self._share / 2, _LAST_SHARE)
        return _PROBE

    def more(self, drawn: int, survival: float) -> int:
        return self._head.more(self, drawn, survival)

    def record(self, drafted: int, evaluated: int, accepted: int, emitted: int) -> None:
        self._emitted += emitted
        if drafted == 0:
            self.unread += emitted  # an estimate: in draft tokens it may be more or fewer
            return
        self._head.record(self, drafted, emitted)
        if self._best == 0 and accepted == drafted and self._may_pay():
            self._idle = _LAST_WAIT  # the probe went well: make another one at once
        self._best, self.unread = None, 0
        self._acceptance.record(evaluated, accepted, emitted)

    def follow(self, before: DraftLength) -> None:
        if not isinstance(before, MeasuredLength) or before.longest != self.longest:
            return
        self._acceptance.follow(before._acceptance)
        self._head.emitted, self._head.seconds = before._head.emitted, before._head.seconds
        self._usual = (before._usual + before._emitted) / 2 if before._emitted else before._usual
        self._emitted, self._idle = 0, before._idle
        self._share = min(2 * before._share, _FIRST_SHARE)  # probe again at the start of a text
        self._best = None

    def state(self) -> dict[str, Any]:
        counts = self._acceptance
        return {
            "evaluated": list(counts.evaluated),
            "accepted": list(counts.accepted),
            "seen": list(counts.seen),
            "survived": list(counts.survived),
            "reached": counts.reached,
            "draft_accepted": counts.draft_accepted,
            "target_accepted": counts.target_accepted,
            "unread": self.unread,
            "idle": self._idle,
            "share": self._share,
            "head_emitted": self._head.emitted,
            "head_seconds": self._head.seconds,
            "usual": self._usual,
            "emitted": self._emitted,
        }

    def chances(self, count: int) -> list[float]:
        """See `AcceptanceByDepth.chances`."""
        return self._acceptance.chances(count)

    def ratio(self) -> float:
        """See `AcceptanceByDepth.ratio`."""
        return self._acceptance.ratio()

    def round_seconds(self, count: int) -> float:
        """See `Costs.round_seconds`."""
        return self._costs.round_seconds(count)

    def speed(self, count: int) -> float:
        """Expected target tokens a second with `count` draft tokens (method section 6)."""
        survival, expected = 1.0, 0.0
        for chance in self.chances(count):
            survival *= chance
            expected += survival
        tokens, seconds = 1.0 + self.ratio() * expected, self._costs.round_seconds(count)
        return tokens / (seconds + tokens * self._reading_seconds() if count else seconds)

    def _best_length(self) -> int:
        """The length that pays best; with a head the longest, which the head ends, if its rounds pay."""
        head = self._head
        if not head.seconds:
            return max(range(self.longest + 1), key=self.speed)
        seconds = head.seconds + head.emitted * self._reading_seconds()
        return self.longest if head.emitted * self._costs.target[0] > seconds else 0

    def _reading_seconds(self) -> float:
        """The time that the drafter needs to read the text, shared among the tokens of a text like this."""
        tokens = self._usual if self._limit is None else min(self._usual, self._limit)
        return self.unread * self._costs.read / max(1.0, tokens)

    def _may_pay(self) -> bool:
        """Whether a probe's drafts would pay if all of them were accepted."""
        return (1.0 + self.ratio() * _PROBE) * self._costs.target[0] > self._costs.round_seconds(_PROBE)

    def _probe_seconds(self) -> float:
        """What a probe takes more than a plain round, if none of it is accepted."""
        return self._costs.round_seconds(_PROBE) - self._costs.target[0] + self.unread * self._costs.read
