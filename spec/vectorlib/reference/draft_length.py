"""How many tokens to draft next: spec/draft-length.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from vectorlib.reference.random_source import TooClose


@dataclass(frozen=True)
class Costs:
    """Seconds: of a target pass over 1, 2, ... tokens, of a draft token, of a round's own work, of a token
    that the drafter reads; and the acceptance that was measured."""

    target: tuple[float, ...]
    draft: float
    host: float
    read: float = 0.0
    acceptance: float = 0.6

    def of_round(self, k: int) -> float:
        """A round with k draft tokens; longer passes than known go on at the mean slope of the known."""
        known, n = self.target, k + 1
        beyond = max(0, n - len(known))
        slope = (known[-1] - known[0]) / max(1, len(known) - 1)
        seconds = known[min(n, len(known)) - 1] + beyond * slope
        return seconds + (k * self.draft + self.host if k else 0.0)


class Lengths:
    """Maximises expected target tokens a second, and probes now and then where nothing pays."""

    def __init__(
        self, costs: Costs, defaults: dict[str, float], unread: int, limit: int | None = None
    ) -> None:
        self._costs, self._d = costs, defaults
        self._rounds: list[tuple[int, int, int, int]] = []  # those that drafted
        self._before = 0  # how many of them are of earlier texts
        self._long = list[
            tuple[float, float]
        ]()  # as the text began: chance by depth, and its weight in rounds
        self._unread, self._limit = unread, limit
        self._texts: list[int] = []  # tokens of each text that was said before this one
        self._said, self._started = 0, False
        self._asked = 0  # tokens drawn when a head was asked last in this round
        self._earned = self._spent = 0.0
        self._idle, self._share = 0, defaults["first_share"]
        self._probing = False

    def next(self) -> int:
        speeds = [self._speed(k) for k in range(int(self._d["longest"]) + 1)]
        best = speeds.index(max(speeds))
        if self._spent:
            paid = self._earned * (self._costs.target[0] - self._reading())
            if abs(paid - self._spent) < 1e-9 * self._spent:
                raise TooClose(f"{paid} s earned")
            best = int(self._d["longest"]) if paid > self._spent else 0
        elif sorted(speeds)[-1] - sorted(speeds)[-2] < 1e-9 * max(speeds):
            raise TooClose(f"speeds {speeds}")
        self._probing = not best
        if best:
            self._idle, self._share = 0, self._d["first_share"]
            return best
        probe = int(self._d["probe"])
        extra = self._costs.of_round(probe) - self._costs.of_round(0) + self._unread * self._costs.read
        saved = self._share * self._idle * self._costs.target[0]
        if abs(saved - extra) < 1e-9 * extra:
            raise TooClose(f"a probe of {extra} s")
        if saved < extra and self._idle < self._d["last_wait"]:
            self._idle += 1
            return 0
        self._idle, self._share = 0, max(self._share / 2, self._d["last_share"])
        return probe

    def more(self, drawn: int, stands: float, threshold: float | None) -> int:
        """Draft tokens yet, where a head gives this chance that all so far stand."""
        self._asked, left = drawn, int(self._d["longest"]) - drawn
        if threshold is not None:
            return 0 if 1.0 - stands > threshold else left
        worth = max(
            1 / self._costs.target[0], self._earned / self._spent if self._spent else self._promised()[1]
        )
        values = [0.0]
        for n in range(1, left + 1):
            gain, alive = 0.0, stands
            for depth in range(drawn, drawn + n):
                alive *= self._chance(depth)
                gain += alive
            seconds = self._costs.of_round(drawn + n) - self._costs.of_round(drawn) - self._costs.draft
            values.append(self._ratio() * gain - worth * seconds)
        if sorted(values)[-1] - sorted(values)[-2] < 1e-9:
            raise TooClose(f"values {values}")
        return values.index(max(values))

    def _promised(self) -> tuple[int, float]:
        """The length of the largest speed, 0 left out, and the largest speed, 0 included."""
        speeds = [self._speed(k) for k in range(int(self._d["longest"]) + 1)]
        return speeds.index(max(speeds[1:]), 1), max(speeds)

    def _note(self, drafted: int, emitted: int) -> None:
        asked, self._asked = self._asked, 0
        if not asked:
            if drafted > 1:
                self._earned = self._spent = 0.0
            return
        if not self._spent:
            k = self._promised()[0]
            self._spent = self._d["prior_rounds"] * self._costs.of_round(k)
            self._earned = self._spent * self._speed(k)
        idle_passes = max(drafted, asked + 1) - drafted
        self._earned = self._earned * self._d["decay"] + emitted
        self._spent = self._spent * self._d["decay"] + (
            self._costs.of_round(drafted) + idle_passes * self._costs.draft
        )

    def another_text(self, unread: int, limit: int | None = None) -> None:
        """Go on with the next text of a session, which has so much to read."""
        if self._said:
            self._texts.append(self._said)
        if self._started:
            depths, first = range(int(self._d["longest"])), self._costs.acceptance
            long = self._d["long_decay"]
            whole = [
                self._stood(depth, first, self._d["prior_rounds"], self._rounds, long) for depth in depths
            ]
            self._long = [(stood, min(seen, 1 / (1 - self._d["decay"]))) for stood, seen in whole]
            self._before = len(self._rounds)
            self._share = min(2 * self._share, self._d["first_share"])
        self._started, self._said, self._unread, self._limit = True, 0, unread, limit

    def record(self, drafted: int, tested: int, passed: int, emitted: int) -> None:
        self._said += emitted
        if drafted:
            self._note(drafted, emitted)
            probe, single = int(self._d["probe"]), self._costs.target[0]
            at_best = (1.0 + self._ratio() * probe) * single
            if self._probing and passed == drafted and at_best > self._costs.of_round(probe):
                self._idle = int(self._d["last_wait"])
            self._rounds.append((drafted, tested, passed, emitted))
            self._unread = 0
        else:
            self._unread += emitted

    def _speed(self, k: int) -> float:
        alive, expected = 1.0, 0.0
        for depth in range(k):
            alive *= self._chance(depth)
            expected += alive
        tokens = 1.0 + self._ratio() * expected
        catch_up = self._reading() * tokens if k else 0.0
        return tokens / (self._costs.of_round(k) + catch_up)

    def _reading(self) -> float:
        """Seconds to read what is unread, for each token of a usual text."""
        # Half the last one, a quarter of the one before it, ...
        usual = self._d["prior_tokens"] / 2 ** len(self._texts)
        usual += fsum(said / 2**age for age, said in enumerate(reversed(self._texts), 1))
        tokens = usual if self._limit is None else min(usual, self._limit)
        return float(self._unread * self._costs.read / max(1, tokens))

    def _chance(self, depth: int) -> float:
        """Of a draft token; a depth that was never reached is believed to be like the one before it."""
        deepest = max((min(tested, passed + 1) for _, tested, passed, _ in self._rounds), default=0)
        return self._acceptance(min(depth, deepest - 1)) if deepest else self._costs.acceptance

    def _acceptance(self, depth: int) -> float:
        """Of a depth that was reached: of this text's rounds, and before them of all, as old rounds."""
        first = self._costs.acceptance, self._d["prior_rounds"]
        first = self._long[depth] if self._long else first
        return self._stood(depth, *first, self._rounds[self._before :], self._d["decay"])[0]

    def _stood(
        self,
        depth: int,
        first: float,
        prior: float,
        rounds: Sequence[tuple[int, int, int, int]],
        decay: float,
    ) -> tuple[float, float]:
        """Decayed share of accepted among judged draft tokens of a depth, with the prior as old rounds; and
        how many were judged."""
        judged = [int(passed > depth) for _, tested, passed, _ in rounds if tested > depth <= passed]
        accepted = self._decayed(prior * first, judged, decay)
        seen = self._decayed(prior, [1] * len(judged), decay)
        return accepted / seen, seen

    def _ratio(self) -> float:
        """Target tokens for each accepted draft token, at most 1.5."""
        prior = self._d["prior_rounds"]
        decay = self._d["decay"]
        accepted = self._decayed(prior, [emitted - 1 for _, _, _, emitted in self._rounds], decay)
        passed = self._decayed(prior, [passed for _, _, passed, _ in self._rounds], decay)
        return min(1.5, accepted / passed) if passed > 1e-9 else 1.0

    @staticmethod
    def _decayed(start: float, values: Sequence[int], decay: float) -> float:
        for value in values:
            start = start * decay + value
        return start
