"""How many tokens the next round proposes, and from which source: as many as pay, or none (method section 6).

Costs come from a measurement and acceptance from the rounds so far. No clock is read here, so equal inputs
give equal lengths.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from typing import Literal, Protocol

from omnidraft import defaults
from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.length_state import (
    FIRST_SHARE,
    LAST_SHARE,
    LONGEST,
    PRIOR_ACCEPTANCE,
    Costs,
    LengthState,
    match_class,
)

MAX_DRAFT_TOKENS = defaults.MAX_DRAFT_TOKENS
MAX_PROPOSED = defaults.MAX_PROPOSED_TOKENS  # target tokens in one pass, at most
CHANCES = defaults.DRAFT_LENGTH_CHANCES  # of a draft token by its class, where PRIOR_ACCEPTANCE is measured
SEEN_DECAY = defaults.DRAFT_LENGTH_SEEN_DECAY  # weight of a draft token after the next one
COPY_ACCEPTANCE = defaults.DRAFT_LENGTH_COPY_ACCEPTANCE  # of a copied token, before any was compared
PRIOR_ROUNDS = defaults.DRAFT_LENGTH_PRIOR_ROUNDS  # of what is assumed before the first round
DECAY = defaults.DRAFT_LENGTH_DECAY  # weight of a round after the next one, relative to before
PROBE = defaults.DRAFT_LENGTH_PROBE  # draft tokens of a probe
READ = defaults.DRAFT_LENGTH_READ  # time of a token that the drafter reads, over that of a draft token
MOST_UNREAD = defaults.DRAFT_LENGTH_MOST_UNREAD  # tokens that the drafter reads before a draft, about
REPAID = defaults.DRAFT_LENGTH_REPAID  # rounds in which drafts must repay the reading before them

_LEAST_GAIN = 1e-9  # target tokens that a draft token gives; a divisor

Source = Literal["none", "draft", "copy"]


@dataclass(frozen=True)
class Plan:
    """What the next round proposes.

    Attributes:
        count: draft tokens at most, or copied target tokens; 0 where the source is "none".
        fresh: whether the drafter forgets its context but for the last `MOST_UNREAD` tokens: more of it were
            not read, and reading them would take longer than it gains.
        chances: the probability that a draft token is accepted, by the class of its confidence [CLASSES];
            none where the draft has the whole count.
        worth: the first, second, ... draft token is proposed if it is accepted, with those before it, with at
            least this probability [count]; otherwise the draft ends before it. None where the draft has a
            token in any case.
        least: the draft goes on after its first, second, ... token if it is accepted so far with at least
            this probability [count - 1].
    """

    source: Source = "none"
    count: int = 0
    fresh: bool = False
    chances: Sequence[float] = ()
    worth: Sequence[float] = ()
    least: Sequence[float] = ()


@dataclass(frozen=True)
class RoundCounts:
    """What a draft length learns from a round.

    Attributes:
        classes: of the confidence of each draft token, and of the one that was not worth proposing.
        evaluated, accepted: draft tokens that were verified, and accepted.
        match: tokens of the context's match before the round; 0 for none.
        agreed: emitted tokens from the first one on that a copy would have had right, proposed or not.
    """

    classes: Sequence[int]
    evaluated: int
    accepted: int
    emitted: int
    match: int = 0
    agreed: int = 0


class DraftLength(Protocol):
    """Chooses what each round proposes."""

    def next(self, match: int = 0) -> Plan:
        """The plan of the next round.

        Args:
            match: tokens of the context's match; 0 where nothing can be copied.
        """

    def record(self, counts: RoundCounts) -> None:
        """Learn from a round."""


class FixedLength:
    """The same number of tokens in every round; with the source "copy" target tokens."""

    def __init__(self, num_draft_tokens: int, source: Literal["draft", "copy"] = "draft") -> None:
        if not 0 <= num_draft_tokens <= MAX_DRAFT_TOKENS:
            raise SettingError(
                f"num_draft_tokens {num_draft_tokens} is outside 0..{MAX_DRAFT_TOKENS}",
                "4 is usual",
                setting="num_draft_tokens",
            )
        self._plan = Plan(source, num_draft_tokens) if num_draft_tokens else Plan()

    def next(self, match: int = 0) -> Plan:
        return self._plan

    def record(self, counts: RoundCounts) -> None:
        """A fixed length has nothing to learn."""


@dataclass(frozen=True)
class Option:
    """One way to propose tokens in the next round.

    Attributes:
        tokens, seconds: expected of the round.
    """

    source: Source
    count: int
    tokens: float
    seconds: float

    @property
    def speed(self) -> float:
        """Expected target tokens a second."""
        return self.tokens / self.seconds


class MeasuredLength:
    """Maximises expected tokens a second, from measured costs and running acceptance.

    While the drafter does not pay it drafts a little now and then, to notice when the text changes. Such a
    probe waits until it costs a small share of the time that passed without one. Each probe that changes
    nothing halves the share, so a drafter that never helps costs a few percent at first and soon almost
    nothing. Copies need no probes: every match of the context is compared with what was emitted.
    """

    def __init__(
        self,
        costs: Costs,
        state: LengthState | None = None,
        *,
        drafts: bool = True,
        copies: bool = False,
        longest: int = LONGEST,
    ) -> None:
        """
        Args:
            state: what was learned so far, which only `record` and `next` change from now on.
            drafts, copies: the sources that can be used.
            longest: tokens of a round at most.
        """
        self.costs, self.state = costs, LengthState() if state is None else state
        self._drafts, self._copies = drafts, copies
        self.longest = longest
        self.repaid = REPAID  # rounds that the time of reading is spread over
        self._plain = Option("none", 0, 1.0, costs.pass_seconds(1))
        self._first = costs.round_seconds(1)
        # Seconds of one more draft token after the first, the second, ...
        self._more = [costs.round_seconds(k + 1) - costs.round_seconds(k) for k in range(1, LONGEST)]
        # Seconds of verifying the first, the second, ... token when it is drafted already.
        self._verified = [more - costs.draft for more in (self._first - self._plain.seconds, *self._more)]

    def next(self, match: int = 0) -> Plan:
        options = [self._plain, *self._copy_options(match)]
        best, state = max(options, key=lambda option: option.speed), self.state  # the first of the fastest
        if not self._drafts:
            return Plan(best.source, best.count)
        speed, plan = self._draft(best.speed)
        # A text that ends at once does not wait for the drafter, which reads as long as its tokens took.
        paid = state.written * self._plain.seconds >= self._reading()
        if paid and speed > best.speed:
            state.idle, state.share = 0, FIRST_SHARE
            return plan
        if paid and self._probe_is_due(best):
            state.idle, state.share = 0, max(state.share / 2.0, LAST_SHARE)
            return replace(plan, count=min(PROBE, self.longest), worth=(), least=())
        state.idle += 1
        return Plan(best.source, best.count)

    def _draft(self, other: float) -> tuple[float, Plan]:
        """The expected speed of a draft, and its plan; other: speed of the best round without a drafter.

        A draft token is worth its time if it brings as many tokens a second as the text has on average: when
        it is drafted, that of verifying it, and before, that of drafting it too. Of a token that is not
        drafted yet, the chance is the mean over the classes.
        """
        chances, ratio, more, verified = self.chances(), self.ratio(), self._more, self._verified
        unseen = _weight(sum(self.state.seen)) / len(chances)
        counts = [count + unseen for count in self.state.seen]
        shares = [count / sum(counts) for count in counts]
        gain = ratio * sum(map(mul, shares, chances))
        tokens, seconds = 1.0 + gain, self._first + self._reading() / self.repaid
        worth = max(other, tokens / seconds) * verified[0]
        for share, chance in zip(shares, chances, strict=True):
            if ratio * chance < worth:
                tokens -= share * ratio * chance
                seconds -= share * verified[0]
        worth = max(other, tokens / seconds) * more[0]
        for share, chance in zip(shares, chances, strict=True):
            if chance * gain >= worth:
                tokens += share * chance * gain
                seconds += share * more[0]
        speed = tokens / seconds
        worths = [speed / ratio * each for each in verified]
        least = [speed / max(gain, _LEAST_GAIN) * each for each in more]
        return speed, Plan("draft", self.longest, self.state.unread > MOST_UNREAD, chances, worths, least)

    def _copy_options(self, match: int) -> list[Option]:
        if not (self._copies and match):
            return []
        depths, seconds = range(1, self.longest + 1), self.costs.copy_seconds
        by_length = running(COPY_ACCEPTANCE, self.state.agreed, self.state.compared)
        expected = _expected([by_length[match_class(match + k - 1)] for k in depths])
        return [Option("copy", k, 1.0 + expected[k - 1], seconds(k)) for k in depths]

    def chances(self) -> list[float]:
        """The probability that a draft token is accepted, by the class of its confidence [CLASSES]."""
        scale = min(1.0, self.costs.acceptance / PRIOR_ACCEPTANCE)
        counts = zip(CHANCES, self.state.accepted, self.state.evaluated, strict=True)
        return [_share(scale * chance, accepted, evaluated) for chance, accepted, evaluated in counts]

    def ratio(self) -> float:
        """Target tokens for each accepted draft token: n-grams give less than one, expansions more."""
        return min(1.5, (self.state.targets + PRIOR_ROUNDS) / (self.state.drafts + PRIOR_ROUNDS))

    def record(self, counts: RoundCounts) -> None:
        state = self.state
        state.unread = 0 if counts.classes else state.unread + counts.emitted
        state.written += counts.emitted
        if not counts.classes:
            state.fade()
        else:
            for each in counts.classes:
                state.seen = [count * SEEN_DECAY for count in state.seen]
                state.seen[each] += 1.0
            # Of a refused target token only the first piece counts.
            for i, each in enumerate(counts.classes[: min(counts.evaluated, counts.accepted + 1)]):
                state.accepted = [count * SEEN_DECAY for count in state.accepted]
                state.evaluated = [count * SEEN_DECAY for count in state.evaluated]
                state.accepted[each] += i < counts.accepted
                state.evaluated[each] += 1.0
            state.drafts = state.drafts * DECAY + counts.accepted
            state.targets = state.targets * DECAY + (counts.emitted - 1)
        if counts.match:
            tokens = min(counts.emitted, counts.agreed + 1, LONGEST)
            classes = [match_class(counts.match + j) for j in range(tokens)]
            _count(state.agreed, state.compared, classes, counts.agreed)

    def _probe_is_due(self, best: Option) -> bool:
        """Whether a probe that gives one token costs little beside the rounds since the last draft."""
        seconds = self.costs.round_seconds(min(PROBE, self.longest)) + self._reading()
        return self.state.share * self.state.idle * self.costs.target[0] >= seconds - 1.0 / best.speed

    def _reading(self) -> float:
        """Seconds that the drafter needs for what it did not read yet."""
        return min(self.state.unread, MOST_UNREAD) * READ * self.costs.draft


def running(prior: float, successes: Sequence[float], trials: Sequence[float]) -> list[float]:
    """Shares of success; each is the assumption for the next, with a weight that falls with the trials."""
    shares = []
    for success, trial in zip(successes, trials, strict=True):
        prior = _share(prior, success, trial)
        shares.append(prior)
    return shares


def _share(prior: float, success: float, trial: float) -> float:
    """The share of success, with an assumption."""
    weight = _weight(trial)
    return (success + weight * prior) / (trial + weight)


def _weight(trial: float) -> float:
    """The weight of an assumption beside trials, in trials; it falls with them."""
    return PRIOR_ROUNDS * PRIOR_ROUNDS / (PRIOR_ROUNDS + trial)


def _count(successes: list[float], trials: list[float], places: Sequence[int], right: int) -> None:
    """Count one trial at each place in turn; the first `right` of them succeeded."""
    for i, place in enumerate(places):
        successes[place] = successes[place] * DECAY + (i < right)
        trials[place] = trials[place] * DECAY + 1.0


def _expected(chances: Sequence[float]) -> list[float]:
    """Expected accepted tokens of 1, 2, ... proposed ones: c_0, c_0 + c_0 x c_1, ..."""
    return list(accumulate(accumulate(chances, mul)))
