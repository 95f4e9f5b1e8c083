"""How many tokens to draft next: as many as pay, none when none pays (method section 6).

The costs come from a measurement, the acceptance from the rounds so far; no clock is read here, so equal
inputs give equal lengths.
"""

from typing import Any, Protocol

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.costs import Costs
from omnidraft.runtime.disk.json_fields import check_like

MAX_DRAFT_TOKENS = 48
PRIOR_ROUNDS = 4.0  # what is believed before the first round weighs as much as so many rounds
_PROBE = 2  # draft tokens of a probe
_FIRST_SHARE, _LAST_SHARE = 0.03, 0.0025  # of the time since the last draft, what a probe may cost
_LAST_WAIT = 1024  # rounds without a draft after which it is tried whatever it costs
_LONG_DECAY = 0.99  # of counts that outlast a text
_PRIOR_TOKENS = 64.0  # of a text, before the first has ended


class DraftLength(Protocol):
    """Chooses the number of draft tokens of each round.

    Attributes:
        unread: about how many draft tokens of the text the drafter has not read.
        hears: whether a head is asked.
    """

    unread: int
    hears: bool

    def next(self) -> int:
        """Draft tokens for the coming round; 0 is plain decoding."""

    def more(self, drawn: int, stands: float) -> int:
        """How many draft tokens to draw yet in a round whose drafter has a trained head.

        Args:
            drawn: draft tokens so far, 1 at least.
            stands: the chance that all of them are accepted, below 1.
        """

    def record(self, drafted: int, tested: int, passed: int, emitted: int) -> None:
        """Learn from a round: draft tokens drawn, judged and accepted, and target tokens emitted."""

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON can hold it."""

    def follow(self, before: "DraftLength") -> None:
        """Begin with what another one of this kind learned of the texts before; of others, with nothing."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what another one of this kind had learned, in the middle of a text.

        Raises:
            ValueError: the state cannot be one of this kind; nothing was taken over.
        """


class FixedLength:
    """The same number in every round, or fewer where a head says so."""

    def __init__(self, num_draft_tokens: int, head_threshold: float = 1.0) -> None:
        """
        Args:
            num_draft_tokens: of a round.
            head_threshold: stop where a draft token is refused with a larger chance; 1 never stops.
        """
        if not 0 <= num_draft_tokens <= MAX_DRAFT_TOKENS:
            raise SettingError(
                f"num_draft_tokens {num_draft_tokens} is outside 0..{MAX_DRAFT_TOKENS}", "4 is usual"
            )
        self._count, self._threshold, self.unread = num_draft_tokens, head_threshold, 0
        self.hears = head_threshold < 1.0

    def next(self) -> int:
        return self._count

    def more(self, drawn: int, stands: float) -> int:
        return 0 if 1.0 - stands > self._threshold else self._count - drawn

    def record(self, drafted: int, tested: int, passed: int, emitted: int) -> None:
        """A fixed length has nothing to learn."""

    def follow(self, before: DraftLength) -> None:
        """A fixed length has nothing to learn."""

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        if state:
            raise ValueError("a fixed draft length has no state")


class MeasuredLength:
    """Maximises expected tokens a second from measured costs and running acceptance by depth.

    After a choice of 0 it drafts a little now and then, to notice when the text changes. A probe waits until
    it costs a small share of the time that passed without one, and each that changes nothing halves the
    share: whatever the pair and the machine, a hopeless drafter costs a few percent and soon next to nothing.
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
            limit: target tokens that may be said, where that is known.
            longest: draft tokens of a round at most.
            decay: what a round counts after the next, of what it counted before.
            head_threshold: as of `FixedLength`; None stops where the next token does not pay.
        """
        self._costs = costs
        self._decay = decay
        # How often draft token j was judged and accepted, given those before it, as decayed counts.
        self._tested = [PRIOR_ROUNDS] * longest
        self._passed = [PRIOR_ROUNDS * costs.acceptance] * longest
        self._seen, self._stood = list(self._tested), list(self._passed)  # the same, of many texts
        self._reached = 0  # depths that were ever judged
        self._draft_passed, self._target_accepted = PRIOR_ROUNDS, PRIOR_ROUNDS
        self.unread, self._limit = unread, limit
        self._usual, self._said = _PRIOR_TOKENS, 0  # target tokens of a text, and of this one so far
        self._idle, self._share = 0, _FIRST_SHARE  # rounds since the last draft
        self._best: int | None = None  # what these counts choose, once it was asked for
        self._threshold, self.hears = head_threshold, head_threshold is None or head_threshold < 1.0
        self._judged = 0  # drawn tokens of this round that a head has spoken of
        self._earned = self._spent = 0.0  # tokens and seconds of rounds that a head ended, decayed; 0: none

    def next(self) -> int:
        if self._best is None:
            self._best = self._random()
        best = self._best
        if best:
            self._idle, self._share = 0, _FIRST_SHARE
            return best
        spared = self._share * self._idle * self._costs.target[0]
        if spared < self._probe_seconds() and self._idle < _LAST_WAIT:
            self._idle += 1
            return 0
        self._idle, self._share = 0, max(self._share / 2, _LAST_SHARE)
        return _PROBE

    def more(self, drawn: int, stands: float) -> int:
        self._judged, left = drawn, len(self._tested) - drawn
        if self._threshold is not None:
            return 0 if 1.0 - stands > self._threshold else left
        chances, ratio, worth = self._chances(drawn + left), self._ratio(), self._worth()
        before = self._costs.round_seconds(drawn) + self._costs.draft
        gain, best, count = 0.0, 0.0, 0
        for n in range(1, left + 1):
            stands *= chances[drawn + n - 1]
            gain += ratio * stands
            # The distribution of the next token is at hand, so the first of them takes no pass of the drafter.
            value = gain - worth * (self._costs.round_seconds(drawn + n) - before)
            if value > best:
                best, count = value, n
        return count

    def record(self, drafted: int, tested: int, passed: int, emitted: int) -> None:
        self._said += emitted
        if drafted == 0:
            self.unread += emitted  # in draft tokens it may be more or fewer
            return
        self._note_pace(drafted, emitted)
        if self._best == 0 and passed == drafted and self._may_pay():
            self._idle = _LAST_WAIT  # a probe that went well: one more, at once
        self._best, self.unread = None, 0
        # Of a refused target token the pieces after the first say nothing: a_j is the chance of draft token j
        # given that those before it stood.
        depths = min(tested, passed + 1, len(self._tested))
        self._reached = max(self._reached, depths)
        for j in range(depths):
            self._tested[j] = self._tested[j] * self._decay + 1.0
            self._passed[j] = self._passed[j] * self._decay + (j < passed)
            self._seen[j] = self._seen[j] * _LONG_DECAY + 1.0
            self._stood[j] = self._stood[j] * _LONG_DECAY + (j < passed)
        self._draft_passed = self._draft_passed * self._decay + passed
        self._target_accepted = self._target_accepted * self._decay + (emitted - 1)

    def state(self) -> dict[str, Any]:
        return {
            "tested": list(self._tested),
            "passed": list(self._passed),
            "seen": list(self._seen),
            "stood": list(self._stood),
            "reached": self._reached,
            "draft_passed": self._draft_passed,
            "target_accepted": self._target_accepted,
            "unread": self.unread,
            "idle": self._idle,
            "share": self._share,
            "earned": self._earned,
            "spent": self._spent,
            "usual": self._usual,
            "said": self._said,
        }

    def follow(self, before: DraftLength) -> None:
        if isinstance(before, MeasuredLength) and len(before._tested) == len(self._tested):
            usual = (before._usual + before._said) / 2 if before._said else before._usual
            self.restore({**before.state(), "unread": self.unread, "usual": usual, "said": 0})
            # One text says less of the next than many do, and who failed in it is worth another try.
            self._tested = [min(seen, 1.0 / (1.0 - self._decay)) for seen in self._seen]
            judged = zip(self._tested, self._stood, self._seen, strict=True)
            self._passed = [tested * stood / seen for tested, stood, seen in judged]
            self._share = min(2 * self._share, _FIRST_SHARE)

    def restore(self, state: dict[str, Any]) -> None:
        own = self.state()
        if state.keys() != own.keys():
            raise ValueError("other fields than a measured draft length has")
        for name, value in own.items():
            check_like(state[name], value)
        if min(*state["tested"], *state["seen"]) <= 0.0 or state["reached"] > len(self._tested):
            raise ValueError("counts that cannot be")
        self._tested, self._passed = list(state["tested"]), list(state["passed"])
        self._seen, self._stood = list(state["seen"]), list(state["stood"])
        self._reached, self.unread = state["reached"], state["unread"]
        self._idle, self._share = state["idle"], state["share"]
        self._draft_passed, self._target_accepted = state["draft_passed"], state["target_accepted"]
        self._earned, self._spent = state["earned"], state["spent"]
        self._usual, self._said = state["usual"], state["said"]
        self._best = None

    def _random(self) -> int:
        """The length that pays best; with a head the longest, which it will shorten, if its rounds pay."""
        if not self._spent:
            return max(range(len(self._tested) + 1), key=self._speed)
        spent = self._spent + self._earned * self._reading_seconds()
        return len(self._tested) if self._earned * self._costs.target[0] > spent else 0

    def _note_pace(self, drafted: int, emitted: int) -> None:
        """Take in a round that drafted: where a head spoke, what it earned and what it took."""
        judged, self._judged = self._judged, 0
        if not judged:
            if drafted > 1:  # a head would have been asked: it was taken away
                self._earned = self._spent = 0.0
            return
        if not self._spent:  # what was believed so far weighs as much as before the first round
            best = max(range(1, len(self._tested) + 1), key=self._speed)
            self._spent = PRIOR_ROUNDS * self._costs.round_seconds(best)
            self._earned = self._spent * self._speed(best)
        passes = max(drafted, judged + 1)  # of the drafter: the last may have drawn nothing
        seconds = self._costs.round_seconds(drafted) + (passes - drafted) * self._costs.draft
        self._earned = self._earned * self._decay + emitted
        self._spent = self._spent * self._decay + seconds

    def _worth(self) -> float:
        """Tokens that a second is worth: what the rounds so far gave, plain decoding at least."""
        plain = 1.0 / self._costs.target[0]
        if self._spent:
            return max(plain, self._earned / self._spent)
        return max(self._speed(k) for k in range(len(self._tested) + 1))

    def _chances(self, count: int) -> list[float]:
        """That each of the first draft tokens is accepted, given those before it."""
        found, acceptance = [], self._costs.acceptance
        for j in range(count):
            if j < self._reached:  # a depth that was never reached is believed to be like the one before it
                acceptance = self._passed[j] / self._tested[j]
            found.append(acceptance)
        return found

    def _ratio(self) -> float:
        """One target token may take several draft tokens, or be taken by less than one."""
        return min(1.5, self._target_accepted / self._draft_passed) if self._draft_passed > 1e-9 else 1.0

    def _speed(self, count: int) -> float:
        """Expected target tokens a second with `count` draft tokens (method section 6)."""
        alive, expected = 1.0, 0.0
        for chance in self._chances(count):
            alive *= chance
            expected += alive
        tokens, seconds = 1.0 + self._ratio() * expected, self._costs.round_seconds(count)
        return tokens / (seconds + tokens * self._reading_seconds() if count else seconds)

    def _reading_seconds(self) -> float:
        """What the drafter has to read first takes, shared among the tokens that a text like this has."""
        tokens = self._usual if self._limit is None else min(self._usual, self._limit)
        return self.unread * self._costs.read / max(1.0, tokens)

    def _may_pay(self) -> bool:
        """Whether a probe's drafts would pay if all of them stood."""
        return (1.0 + self._ratio() * _PROBE) * self._costs.target[0] > self._costs.round_seconds(_PROBE)

    def _probe_seconds(self) -> float:
        """What a probe takes more than a plain step, if none of it is accepted."""
        return self._costs.round_seconds(_PROBE) - self._costs.target[0] + self.unread * self._costs.read
