"""What the draft length is computed from: costs, and what was learned; a session file holds both."""

from bisect import bisect
from copy import deepcopy
from dataclasses import dataclass, field

from omnidraft import defaults

CONFIDENCES = defaults.DRAFT_LENGTH_CONFIDENCES  # the least confidence of each class after the first
PRIOR_ACCEPTANCE = defaults.DRAFT_LENGTH_PRIOR_ACCEPTANCE  # of a drafter that was never measured
LONGEST = defaults.DRAFT_LENGTH_LONGEST  # tokens that a round proposes at most
CLASSES = len(CONFIDENCES) + 1
LONGEST_MATCH = defaults.DRAFT_LENGTH_LONGEST_MATCH  # tokens of a match; longer matches count as this long
SHORTEST_MATCH = defaults.DRAFT_LENGTH_SHORTEST_MATCH
FIRST_SHARE = defaults.DRAFT_LENGTH_FIRST_SHARE  # of the time since the last draft, what a probe may cost
PLAIN_DECAY = defaults.DRAFT_LENGTH_PLAIN_DECAY  # weight of a draft token after a round without a draft
LAST_SHARE = defaults.DRAFT_LENGTH_LAST_SHARE


@dataclass(frozen=True)
class Costs:
    """Seconds on one device.

    Attributes:
        target: one target pass over n = 1, 2, ... tokens.
        host: the round's own work (translate, verify, learn, rewind).
        acceptance: not seconds: accepted draft tokens over evaluated ones, when the pair was exported.
    """

    target: tuple[float, ...]
    draft: float
    host: float
    acceptance: float = PRIOR_ACCEPTANCE

    def pass_seconds(self, n: int) -> float:
        """Seconds of a target pass over n tokens; longer ones than measured continue at the mean slope.

        Passes whose times fall do not go on falling: they would take no time, or less.
        """
        measured = self.target
        if n <= len(measured):
            return measured[n - 1]
        slope = max(0.0, (measured[-1] - measured[0]) / max(1, len(measured) - 1))
        return measured[-1] + slope * (n - len(measured))

    def round_seconds(self, num_draft_tokens: int) -> float:
        """Seconds of a round with this number of draft tokens; 0 is plain decoding, without host work."""
        host = self.host if num_draft_tokens else 0.0
        return self.pass_seconds(num_draft_tokens + 1) + num_draft_tokens * self.draft + host

    def copy_seconds(self, num_tokens: int) -> float:
        """Seconds of a round with this number of copied tokens."""
        return self.pass_seconds(num_tokens + 1) + self.host


def _zeros(count: int) -> list[float]:
    return [0.0] * count


@dataclass
class LengthState:
    """All that a measured draft length learned, as decayed counts; a session file holds it.

    Attributes:
        seen, evaluated, accepted: draft tokens by the class of their confidence [CLASSES].
        drafts, targets: accepted draft tokens, and the target tokens that they gave.
        compared, agreed: tokens that a copy would have proposed, and those that were right, by the length of
            the match before the token, from SHORTEST_MATCH on [LONGEST_MATCH - SHORTEST_MATCH + 1].
        idle: rounds since the last draft.
        unread: tokens of the text that the drafter has not read.
        written: tokens that were emitted since the text began.
        share: of their time, what a probe may cost.
    """

    seen: list[float] = field(default_factory=lambda: _zeros(CLASSES))
    evaluated: list[float] = field(default_factory=lambda: _zeros(CLASSES))
    accepted: list[float] = field(default_factory=lambda: _zeros(CLASSES))
    drafts: float = 0.0
    targets: float = 0.0
    compared: list[float] = field(default_factory=lambda: _zeros(LONGEST_MATCH - SHORTEST_MATCH + 1))
    agreed: list[float] = field(default_factory=lambda: _zeros(LONGEST_MATCH - SHORTEST_MATCH + 1))
    idle: int = 0
    unread: int = 0
    written: int = 0
    share: float = FIRST_SHARE

    def copy(self) -> "LengthState":
        """An independent state of equal values."""
        return deepcopy(self)

    def begin_text(self, length: int, shared: int = 0) -> None:
        """Probe again at the start of a text, and count what the drafter has not read of it.

        Args:
            length: of the drafter's context.
            shared: tokens that it has in common with the context of the text before, from the first one on.
        """
        self.unread, self.written = min(length, self.unread + length - shared), 0
        self.share = min(2.0 * self.share, FIRST_SHARE)

    def fade(self) -> None:
        """Count a round without a draft: the text goes on, and says less and less of a later draft."""
        self.seen = [count * PLAIN_DECAY for count in self.seen]
        self.evaluated = [count * PLAIN_DECAY for count in self.evaluated]
        self.accepted = [count * PLAIN_DECAY for count in self.accepted]


def confidence_class(confidence: float) -> int:
    """The index of a confidence in the lists of `LengthState`."""
    return bisect(CONFIDENCES, confidence)


def match_class(match: int) -> int:
    """The index of a match's length in the lists of `LengthState`."""
    return min(match, LONGEST_MATCH) - SHORTEST_MATCH
