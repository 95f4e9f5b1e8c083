"""What a round drafted, and how likely each draft token was to be accepted: for the adaptive head."""

from __future__ import annotations

from dataclasses import dataclass

from omnidraft.runtime.trace import TracedRound


@dataclass(frozen=True)
class JudgedDraft:
    """The draft of one round.

    Attributes:
        start: how many ids of `Aligned.draft_ids` it was drafted after.
        draft_ids: the draft. What was accepted of it stands in `Aligned.draft_ids` too, but for draft tokens
            longer than a target token, which are spelled out there.
        labels: of each tested draft token the probability that it was accepted, given those before it, under
            the laws that the round went by; what lies behind the refused one has none.
    """

    start: int
    draft_ids: tuple[int, ...]
    labels: tuple[float, ...]

    def cut(self, most: int) -> JudgedDraft:
        """Its first draft tokens."""
        return JudgedDraft(self.start, self.draft_ids[:most], self.labels[:most])


def judged_draft(found: TracedRound, start: int) -> JudgedDraft:
    """The draft of a round that began after so many draft ids.

    A draft token that ends one spelling and begins the next was tested twice, and both tests count; the
    draft tokens of a target token that was tested as a whole stand or fall with the last of them.
    """
    labels = [1.0] * found.tested
    for each in found.judged:
        labels[each.draft] *= each.label
    return JudgedDraft(start, found.draft, tuple(labels))
