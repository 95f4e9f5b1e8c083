"""How many tokens to draft next: spec/draft-length.md."""

from collections.abc import Sequence
from dataclasses import dataclass

from vectorlib.chance import TooClose


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

    def __init__(self, costs: Costs, defaults: dict[str, float], unread: int) -> None:
        self._costs, self._d = costs, defaults
        self._rounds: list[tuple[int, int, int, int]] = []  # those that drafted
        self._unread = unread
        self._idle, self._share = 0, defaults["first_share"]

    def next(self) -> int:
        speeds = [self._speed(k) for k in range(int(self._d["longest"]) + 1)]
        best = speeds.index(max(speeds))
        if sorted(speeds)[-1] - sorted(speeds)[-2] < 1e-9 * max(speeds):
            raise TooClose(f"speeds {speeds}")
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

    def record(self, drafted: int, tested: int, passed: int, emitted: int) -> None:
        if drafted:
            self._rounds.append((drafted, tested, passed, emitted))
            self._unread = 0
        else:
            self._unread += emitted

    def _speed(self, k: int) -> float:
        deepest = max((tested for _, tested, _, _ in self._rounds), default=0)
        alive, expected, acceptance = 1.0, 0.0, self._costs.acceptance
        for depth in range(k):
            if depth < deepest:  # what was never reached is believed to be like the one before it
                acceptance = self._acceptance(depth)
            alive *= acceptance
            expected += alive
        catch_up = self._unread * self._costs.read / self._d["catch_up_rounds"] if k else 0.0
        return (1.0 + self._ratio() * expected) / (self._costs.of_round(k) + catch_up)

    def _acceptance(self, depth: int) -> float:
        """Decayed share of accepted among judged draft tokens of a depth, with the prior as old rounds."""
        prior = self._d["prior_rounds"]
        judged = [int(passed > depth) for _, tested, passed, _ in self._rounds if tested > depth]
        accepted = self._decayed(prior * self._costs.acceptance, judged)
        return accepted / self._decayed(prior, [1] * len(judged))

    def _ratio(self) -> float:
        """Target tokens for each accepted draft token, at most 1.5."""
        prior = self._d["prior_rounds"]
        accepted = self._decayed(prior, [emitted - 1 for _, _, _, emitted in self._rounds])
        passed = self._decayed(prior, [passed for _, _, passed, _ in self._rounds])
        return min(1.5, accepted / passed) if passed > 1e-9 else 1.0

    def _decayed(self, start: float, values: Sequence[int]) -> float:
        for value in values:
            start = start * self._d["decay"] + value
        return start
