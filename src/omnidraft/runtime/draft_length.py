"""How many tokens to draft next: as many as pay, none when none pays (method section 6).

The costs come from a measurement, the acceptance from the rounds so far; no clock is read here, so equal
inputs give equal lengths.
"""

from dataclasses import dataclass
from typing import Protocol

from omnidraft.errors import SettingError

MAX_DRAFT_TOKENS = 48


@dataclass(frozen=True)
class Costs:
    """Seconds on one device.

    Attributes:
        target: one target pass over n = 1, 2, ... tokens.
        draft: one draft token.
        host: the round's own work (translate, verify, learn, rewind).
    """

    target: tuple[float, ...]
    draft: float
    host: float

    def round_seconds(self, num_draft_tokens: int) -> float:
        """A round with so many draft tokens; longer passes than were measured go on at the last slope."""
        n, known = num_draft_tokens + 1, self.target
        if n <= len(known):
            target = known[n - 1]
        else:
            slope = (known[-1] - known[0]) / max(1, len(known) - 1)
            target = known[-1] + slope * (n - len(known))
        return target + num_draft_tokens * self.draft + (self.host if num_draft_tokens else 0.0)


class DraftLength(Protocol):
    """Chooses the number of draft tokens of each round."""

    def next(self) -> int:
        """Draft tokens for the coming round; 0 is plain decoding."""

    def record(self, drafted: int, tested: int, passed: int, emitted: int) -> None:
        """Learn from a round: draft tokens drawn, judged and accepted, and target tokens emitted."""


class FixedLength:
    """The same number in every round."""

    def __init__(self, num_draft_tokens: int) -> None:
        if not 0 <= num_draft_tokens <= MAX_DRAFT_TOKENS:
            raise SettingError(
                f"num_draft_tokens {num_draft_tokens} is outside 0..{MAX_DRAFT_TOKENS}; 4 is usual"
            )
        self._count = num_draft_tokens

    def next(self) -> int:
        return self._count

    def record(self, drafted: int, tested: int, passed: int, emitted: int) -> None:
        """A fixed length has nothing to learn."""


class MeasuredLength:
    """Maximises expected tokens a second from measured costs and running acceptance by depth.

    After a choice of 0 it drafts a little every `probe_every` rounds, to notice when the text changes.
    """

    def __init__(
        self, costs: Costs, *, longest: int = 12, decay: float = 0.95, probe_every: int = 16
    ) -> None:
        self._costs = costs
        self._decay = decay
        self._probe_every = probe_every
        # Acceptance of draft token j given those before it, as decayed counts; the prior is worth 4 rounds.
        self._tested = [4.0] * longest
        self._passed = [2.4] * longest
        self._draft_passed, self._target_emitted = 4.0, 4.0
        self._idle = 0

    def next(self) -> int:
        best = max(range(len(self._tested) + 1), key=self._speed)
        if best:
            self._idle = 0
            return best
        self._idle += 1
        if self._idle % self._probe_every:
            return 0
        return 2

    def record(self, drafted: int, tested: int, passed: int, emitted: int) -> None:
        for j in range(min(tested, len(self._tested))):
            self._tested[j] = self._tested[j] * self._decay + 1.0
            self._passed[j] = self._passed[j] * self._decay + (j < passed)
        self._draft_passed = self._draft_passed * self._decay + passed
        self._target_emitted = self._target_emitted * self._decay + (emitted - 1)

    def _speed(self, count: int) -> float:
        """Expected target tokens a second with `count` draft tokens."""
        alive, expected = 1.0, 0.0
        for j in range(count):
            alive *= self._passed[j] / self._tested[j]
            expected += alive
        # Several draft tokens may write one target token: scale by what accepted ones became so far.
        ratio = self._target_emitted / max(self._draft_passed, 1e-9) if self._draft_passed > 1e-9 else 1.0
        return (1.0 + min(ratio, 1.5) * expected) / self._costs.round_seconds(count)
