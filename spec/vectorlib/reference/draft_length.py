"""How many tokens to draft next: spec/07-draft-length.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from vectorlib.reference.random_source import TooClose

Record = tuple[int, int, int, int]  # of a round: drafted, evaluated, accepted_drafts, emitted


@dataclass(frozen=True)
class Costs:
    """The costs of a round in seconds, and the acceptance that was measured at export.

    Attributes:
        target: of a target pass over 1, 2, ... tokens.
        draft: of a draft token.
        host: of a round's own work.
        read: of a token that the drafter reads.
        acceptance: share of the evaluated draft tokens that were accepted.
    """

    target: tuple[float, ...]
    draft: float
    host: float
    read: float = 0.0
    acceptance: float = 0.6

    def of_round(self, k: int) -> float:
        """Seconds of a round with k draft tokens; beyond the measured passes, by their mean slope."""
        measured, n = self.target, k + 1
        beyond = max(0, n - len(measured))
        slope = (measured[-1] - measured[0]) / max(1, len(measured) - 1)
        seconds = measured[min(n, len(measured)) - 1] + beyond * slope
        return seconds + (k * self.draft + self.host if k else 0.0)


class DraftLength:
    """Maximises the expected target tokens per second; probes now and then if drafting does not pay."""

    def __init__(
        self, costs: Costs, defaults: dict[str, float], unread: int, limit: int | None = None
    ) -> None:
        self._costs, self._d = costs, defaults
        self._longest, self._probe = int(defaults["longest"]), int(defaults["probe"])
        self._rounds: list[Record] = []  # rounds with a draft
        self._earlier = 0  # how many of these rounds belong to earlier texts
        # At the start of this text: acceptance by depth, and its weight in rounds.
        self._history: list[tuple[float, float]] = []
        self._unread, self._limit = unread, limit
        self._texts: list[int] = []  # emitted tokens of each earlier text
        self._emitted, self._started = 0, False
        self._asked = 0  # tokens drawn when the head was last asked in this round
        self._earned = self._spent = 0.0
        self._idle, self._share = 0, defaults["first_share"]
        self._probing = False

    def next(self) -> int:
        """The length of the next draft."""
        best = self._best()
        self._probing = not best
        if best:
            self._idle, self._share = 0, self._d["first_share"]
            return best
        probe = self._probe
        extra = self._costs.of_round(probe) - self._costs.of_round(0) + self._unread * self._costs.read
        saved = self._share * self._idle * self._costs.target[0]
        if abs(saved - extra) < 1e-9 * extra:
            raise TooClose(f"a probe of {extra} s")
        if saved < extra and self._idle < self._d["last_wait"]:
            self._idle += 1
            return 0
        self._idle, self._share = 0, max(self._share / 2, self._d["last_share"])
        return probe

    def _best(self) -> int:
        """The length that pays most; with a head, the longest or 0."""
        if self._spent:
            worth = self._earned * (self._costs.target[0] - self._reading())
            if abs(worth - self._spent) < 1e-9 * self._spent:
                raise TooClose(f"{worth} s earned")
            return self._longest if worth > self._spent else 0
        speeds = self._speeds()
        if sorted(speeds)[-1] - sorted(speeds)[-2] < 1e-9 * max(speeds):
            raise TooClose(f"speeds {speeds}")
        return speeds.index(max(speeds))

    def more(self, drawn: int, survival: float, threshold: float | None) -> int:
        """How many more tokens to draw; `survival`: probability that all tokens so far are accepted."""
        self._asked, left = drawn, self._longest - drawn
        if threshold is not None:
            return 0 if 1.0 - survival > threshold else left
        rate = self._earned / self._spent if self._spent else max(self._speeds())
        worth = max(1 / self._costs.target[0], rate)
        values = [0.0]
        for n in range(1, left + 1):
            gain, alive = 0.0, survival
            for depth in range(drawn, drawn + n):
                alive *= self._acceptance(depth)
                gain += alive
            seconds = self._costs.of_round(drawn + n) - self._costs.of_round(drawn) - self._costs.draft
            values.append(self._ratio() * gain - worth * seconds)
        if sorted(values)[-1] - sorted(values)[-2] < 1e-9:
            raise TooClose(f"values {values}")
        return values.index(max(values))

    def start_text(self, unread: int, limit: int | None = None) -> None:
        """Begin the next text of a session, with `unread` tokens that the drafter has to read."""
        if self._emitted:
            self._texts.append(self._emitted)
        if self._started:
            prior, decay = self._d["prior_rounds"], self._d["long_decay"]
            counts = [
                self._counts(depth, self._costs.acceptance, prior, self._rounds, decay)
                for depth in range(self._longest)
            ]
            most = 1 / (1 - self._d["decay"])
            self._history = [(acceptance, min(weight, most)) for acceptance, weight in counts]
            self._earlier = len(self._rounds)
            self._share = min(2 * self._share, self._d["first_share"])
        self._started, self._emitted, self._unread, self._limit = True, 0, unread, limit

    def record(self, drafted: int, evaluated: int, accepted_drafts: int, emitted: int) -> None:
        """Learn the outcome of a round."""
        self._emitted += emitted
        if not drafted:
            self._unread += emitted
            return
        self._record_head(drafted, emitted)
        probe, single = self._probe, self._costs.target[0]
        at_best = (1.0 + self._ratio() * probe) * single
        if self._probing and accepted_drafts == drafted and at_best > self._costs.of_round(probe):
            self._idle = int(self._d["last_wait"])
        self._rounds.append((drafted, evaluated, accepted_drafts, emitted))
        self._unread = 0

    def _record_head(self, drafted: int, emitted: int) -> None:
        """Count what rounds with a head earn and spend."""
        asked, self._asked = self._asked, 0
        if not asked:
            if drafted > 1:
                self._earned = self._spent = 0.0
            return
        if not self._spent:
            speeds = self._speeds()
            k = speeds.index(max(speeds[1:]), 1)
            self._spent = self._d["prior_rounds"] * self._costs.of_round(k)
            self._earned = self._spent * self._speed(k)
        idle_passes = max(drafted, asked + 1) - drafted
        seconds = self._costs.of_round(drafted) + idle_passes * self._costs.draft
        self._earned = self._earned * self._d["decay"] + emitted
        self._spent = self._spent * self._d["decay"] + seconds

    def _speeds(self) -> list[float]:
        return [self._speed(k) for k in range(self._longest + 1)]

    def _speed(self, k: int) -> float:
        """Expected target tokens per second with k draft tokens."""
        alive, expected = 1.0, 0.0
        for depth in range(k):
            alive *= self._acceptance(depth)
            expected += alive
        tokens = 1.0 + self._ratio() * expected
        catch_up = self._reading() * tokens if k else 0.0
        return tokens / (self._costs.of_round(k) + catch_up)

    def _reading(self) -> float:
        """Seconds to read the unread tokens, for each token of a text of usual length."""
        # Half the last text, a quarter of the one before it, ...
        usual = self._d["prior_tokens"] / 2 ** len(self._texts)
        usual += fsum(emitted / 2**age for age, emitted in enumerate(reversed(self._texts), 1))
        tokens = usual if self._limit is None else min(usual, self._limit)
        return float(self._unread * self._costs.read / max(1, tokens))

    def _acceptance(self, depth: int) -> float:
        """Of the draft token at a depth; a depth that was never reached counts as the deepest that was."""
        deepest = max(
            (min(evaluated, accepted_drafts + 1) for _, evaluated, accepted_drafts, _ in self._rounds),
            default=0,
        )
        if not deepest:
            return self._costs.acceptance
        depth = min(depth, deepest - 1)
        acceptance, prior = self._costs.acceptance, self._d["prior_rounds"]
        if self._history:
            acceptance, prior = self._history[depth]
        return self._counts(depth, acceptance, prior, self._rounds[self._earlier :], self._d["decay"])[0]

    def _counts(
        self, depth: int, acceptance: float, prior: float, rounds: Sequence[Record], decay: float
    ) -> tuple[float, float]:
        """Decayed acceptance at a depth, and its weight in rounds; the prior counts as `prior` old rounds."""
        outcomes = [
            int(accepted_drafts > depth)
            for _, evaluated, accepted_drafts, _ in rounds
            if evaluated > depth <= accepted_drafts
        ]
        accepted = self._decayed(prior * acceptance, outcomes, decay)
        evaluated = self._decayed(prior, [1] * len(outcomes), decay)
        return accepted / evaluated, evaluated

    def _ratio(self) -> float:
        """Target tokens for each accepted draft token, at most 1.5."""
        prior, decay = self._d["prior_rounds"], self._d["decay"]
        accepted = self._decayed(prior, [emitted - 1 for _, _, _, emitted in self._rounds], decay)
        accepted_drafts = self._decayed(
            prior, [accepted_drafts for _, _, accepted_drafts, _ in self._rounds], decay
        )
        return min(1.5, accepted / accepted_drafts) if accepted_drafts > 1e-9 else 1.0

    @staticmethod
    def _decayed(start: float, values: Sequence[int], decay: float) -> float:
        for value in values:
            start = start * decay + value
        return start
