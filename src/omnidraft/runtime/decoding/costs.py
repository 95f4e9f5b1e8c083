"""What a round takes on one device, and how often its drafts are accepted there."""

from dataclasses import dataclass

PRIOR_ACCEPTANCE = 0.6  # of a drafter that was never measured


@dataclass(frozen=True)
class Costs:
    """Seconds on one device.

    Attributes:
        target: one target pass over n = 1, 2, ... tokens.
        draft: one draft token.
        host: the round's own work (translate, verify, learn, rewind).
        read: one token of a text that the drafter has not read yet.
        acceptance: not seconds: how often a draft token that was judged was accepted, when last measured.
    """

    target: tuple[float, ...]
    draft: float
    host: float
    read: float = 0.0
    acceptance: float = PRIOR_ACCEPTANCE

    def round_seconds(self, num_draft_tokens: int) -> float:
        """A round with so many draft tokens; longer passes than were measured go on at the mean slope."""
        n, known = num_draft_tokens + 1, self.target
        if n <= len(known):
            target = known[n - 1]
        else:
            slope = (known[-1] - known[0]) / max(1, len(known) - 1)
            target = known[-1] + slope * (n - len(known))
        return target + num_draft_tokens * self.draft + (self.host if num_draft_tokens else 0.0)
