"""Prompt lookup: no drafter at all, the text so far says how it may go on.

Proposals are target tokens, fixed by the context, so there is nothing to translate and the match rule judges
them exactly at every temperature (Saxena's prompt-lookup decoding; `prompt_lookup_num_tokens` in
transformers). Good where an answer quotes its prompt: summaries, edits, code.
"""

from collections.abc import Sequence

from omnidraft.runtime.decoding.drafter import Draft, More
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.decoding.verifier import Rows, Verdict, match
from omnidraft.runtime.traces.trace import DecisionLabel

LONGEST, SHORTEST = 4, 2  # tokens of the suffix that is looked for


class PromptLookup:
    """A `Proposer` that copies what followed the context's last tokens before.

    The longest suffix of 4, 3 or 2 tokens that occurred earlier decides; of several occurrences the latest.
    The copy may run into itself, so a text that repeats goes on repeating.
    """

    def __init__(self) -> None:
        self._followed: dict[tuple[int, ...], int] = {}  # n-gram -> where its latest follower stands
        self._seen = 0

    def propose(
        self, tokens: Sequence[int], count: int, random: RandomSource, more: More | None = None
    ) -> Draft:
        self._index(tokens)
        copied = list(tokens)
        at = self._follower(tokens)
        for i in range(count if at is not None else 0):
            assert at is not None
            copied.append(copied[at + i])
        return Draft(copied[len(tokens) :])

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        tokens = draft.tokens[:max_tokens]
        return Proposal(tokens, ends=list(range(1, len(tokens) + 1)), used=len(tokens))

    def verify(self, draft: Draft, proposal: Proposal, rows: Rows, random: RandomSource) -> Verdict:
        return match(proposal, rows, random)

    def judged(
        self, draft: Draft, proposal: Proposal, verdict: Verdict, rows: Rows
    ) -> tuple[DecisionLabel, ...]:
        return ()  # no drafter learns from what was copied

    def learn(self, draft: Draft, proposal: Proposal, verdict: Verdict, emitted: Sequence[int]) -> int:
        return 0

    def _index(self, tokens: Sequence[int]) -> None:
        """Note every n-gram that has a follower, later ones over earlier ones."""
        for at in range(self._seen, len(tokens)):
            for n in range(SHORTEST, min(LONGEST, at) + 1):
                self._followed[tuple(tokens[at - n : at])] = at
        self._seen = len(tokens)

    def _follower(self, tokens: Sequence[int]) -> int | None:
        for n in range(min(LONGEST, len(tokens)), SHORTEST - 1, -1):
            at = self._followed.get(tuple(tokens[-n:]))
            if at is not None:
                return at
        return None
