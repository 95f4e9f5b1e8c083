"""Prompt lookup: no drafter, the text so far suggests how it continues.

Proposals are target tokens, fixed by the context, so there is nothing to translate and the match rule
verifies them exactly at every temperature (Saxena's prompt-lookup decoding; `prompt_lookup_num_tokens` in
transformers). It helps where an answer quotes its prompt: summaries, edits, code.
"""

from collections.abc import Sequence

from omnidraft.runtime.decoding.draft_length import DraftLength
from omnidraft.runtime.decoding.drafter import Draft
from omnidraft.runtime.decoding.proposer import Outcome, Rule
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.decoding.verifier import Probs, Verdict, verify_match

LONGEST, SHORTEST = 4, 2  # tokens of the suffix that is searched for


class PromptLookup:
    """A `Proposer` that copies what followed the context's last tokens before.

    The longest suffix of 4, 3 or 2 tokens that occurred earlier decides; of several occurrences the latest.
    The copy may run into itself, so a text that repeats continues to repeat.
    """

    rule: Rule = "none"  # no drafter learns from a copy

    def __init__(self) -> None:
        self._followed: dict[tuple[int, ...], int] = {}  # n-gram -> position of its latest follower
        self._seen = 0

    def propose(
        self, tokens: Sequence[int], context: Sequence[int], length: DraftLength, random: RandomSource
    ) -> Draft:
        return Draft(self.copy(tokens, count)) if (count := length.next()) else Draft()

    def copy(self, tokens: Sequence[int], count: int) -> list[int]:
        """At most `count` tokens that followed the last ones before."""
        self._index(tokens)
        copied = list(tokens)
        position = self._follower(tokens)
        for i in range(count if position is not None else 0):
            assert position is not None
            copied.append(copied[position + i])
        return copied[len(tokens) :]

    def translate(self, draft: Draft, room: int) -> Proposal:
        tokens = draft.tokens[:room]
        return Proposal(tokens, ends=list(range(1, len(tokens) + 1)), used=len(tokens))

    def verify(self, draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource) -> Verdict:
        return verify_match(proposal, probs, random)

    def learn(self, outcome: Outcome, context: list[int]) -> int:
        return 0

    def _index(self, tokens: Sequence[int]) -> None:
        """Note every n-gram that has a follower, later ones over earlier ones."""
        for end in range(self._seen, len(tokens)):
            for n in range(SHORTEST, min(LONGEST, end) + 1):
                self._followed[tuple(tokens[end - n : end])] = end
        self._seen = len(tokens)

    def _follower(self, tokens: Sequence[int]) -> int | None:
        for n in range(min(LONGEST, len(tokens)), SHORTEST - 1, -1):
            position = self._followed.get(tuple(tokens[-n:]))
            if position is not None:
                return position
        return None
