"""Copying: the text so far suggests how it continues, without a drafter.

Proposals are target tokens, fixed by the context, so there is nothing to translate and the match rule
verifies them exactly at every temperature (Saxena's prompt-lookup decoding; `prompt_lookup_num_tokens` in
transformers). It helps where an answer quotes its prompt or repeats itself: summaries, edits, code.
"""

from collections.abc import Sequence

from omnidraft import defaults
from omnidraft.runtime.decoding.draft_length import (
    MAX_DRAFT_TOKENS,
    MAX_PROPOSED,
    DraftLength,
    MeasuredLength,
    Plan,
    RoundCounts,
)
from omnidraft.runtime.decoding.drafter import Allowed, Draft
from omnidraft.runtime.decoding.length_state import LONGEST_MATCH
from omnidraft.runtime.decoding.proposer import NO_COPY, Copy, Outcome, Proposer, TrieProposer
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.decoding.verifier import Probs, Verdict, verify_match
from omnidraft.runtime.grammar.constraint import Constraint

# Tokens of the suffix that is searched for.
LONGEST, SHORTEST = defaults.PROMPT_LOOKUP_LONGEST, defaults.PROMPT_LOOKUP_SHORTEST


_USUAL_TRIED, _USUAL_AGREED = 10, 9  # fixed tokens that were proposed, and right, before any was


class PromptLookup:
    """A `Proposer` that copies what followed the context's last tokens before.

    The longest suffix of 4, 3 or 2 tokens that occurred earlier decides; of several occurrences the latest.
    The copy may run into itself, so a text that repeats continues to repeat.
    """

    def __init__(self) -> None:
        self._followed: dict[tuple[int, ...], int] = {}  # n-gram -> position of its latest follower
        self._seen = 0

    def find(self, tokens: Sequence[int]) -> Copy:
        self._index(tokens)
        position = self._follower(tokens)
        if position is None:
            return NO_COPY
        copied = list(tokens[position : position + MAX_DRAFT_TOKENS])
        for i in range(MAX_DRAFT_TOKENS - len(copied)):
            copied.append(copied[i])  # what follows the copied tokens is the copy itself
        return Copy(copied, _match_length(tokens, position))

    def propose(self, plan: Plan, copy: Copy, context: Sequence[int], random: RandomSource) -> Draft:
        return Draft(copied=list(copy.tokens[: plan.count]))

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        tokens = draft.copied[:max_tokens]
        return Proposal(tokens, ends=[0] * len(tokens))  # copies use no draft tokens

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


class PlainProposer(PromptLookup):
    """Plain decoding: a `Proposer` that proposes nothing, so that each round is one sample of the target."""

    def find(self, tokens: Sequence[int]) -> Copy:
        return NO_COPY


class CopyingProposer:
    """A `Proposer` with two sources: a drafter, and the context where the draft length prefers it."""

    def __init__(self, drafting: TrieProposer) -> None:
        """
        Args:
            drafting: the source of drafts; it also learns from copied rounds.
        """
        self._drafting, self._copying = drafting, PromptLookup()

    def allow(self, allowed: Allowed) -> None:
        """See `TrieProposer.allow`."""
        self._drafting.allow(allowed)

    def find(self, tokens: Sequence[int]) -> Copy:
        return self._copying.find(tokens)

    def propose(self, plan: Plan, copy: Copy, context: Sequence[int], random: RandomSource) -> Draft:
        source = self._copying if plan.source == "copy" else self._drafting
        return source.propose(plan, copy, context, random)

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        return (self._copying if draft.copied else self._drafting).translate(draft, max_tokens)

    def verify(self, draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource) -> Verdict:
        source = self._copying if draft.copied else self._drafting
        return source.verify(draft, proposal, probs, random)

    def learn(self, outcome: Outcome, context: list[int]) -> int:
        return self._drafting.learn(outcome, context)


class InGrammar:
    """A `Proposer`, and its `DraftLength`, for a text in a grammar.

    What the grammar fixes is proposed before anything else, as much of it as the measured costs repay; of
    such a round the draft length learns only what the drafter has not read. Copies end where they leave the
    grammar.
    """

    def __init__(self, inner: Proposer, length: DraftLength, constraint: Constraint) -> None:
        self._inner, self._length, self._constraint = inner, length, constraint
        self._fixing, self._fixed, self._certain = PromptLookup(), 0, 0  # fixed tokens of this round
        self._tried, self._agreed = _USUAL_TRIED, _USUAL_AGREED
        self._fixing_rounds, self._other_rounds = 0, 0
        if constraint.masks_drafts and isinstance(inner, TrieProposer | CopyingProposer):
            inner.allow(constraint.draft_mask)

    def find(self, tokens: Sequence[int]) -> Copy:
        copy, (fixed, self._certain) = self._inner.find(tokens), self._constraint.fixed(MAX_PROPOSED)
        self._fixed = self._worth(len(fixed))
        if self._fixed:
            return Copy(fixed[: self._fixed])
        valid = self._constraint.valid_start(copy.tokens)
        return Copy(valid, copy.match) if valid else NO_COPY

    def next(self, match: int = 0) -> Plan:
        if self._fixed:
            self._fixing_rounds += 1
            return Plan("copy", self._fixed)
        self._other_rounds += 1
        if isinstance(self._length, MeasuredLength) and self._fixing_rounds:
            # What the drafter reads is of use up to the next fixed bytes, which it has to read too.
            self._length.repaid = self._other_rounds / self._fixing_rounds
        return self._length.next(match)

    def record(self, counts: RoundCounts) -> None:
        if not self._fixed:
            self._length.record(counts)
            return
        self._length.record(RoundCounts((), 0, 0, counts.emitted))
        self._agreed += max(0, counts.agreed - self._certain)
        self._tried += max(0, min(counts.agreed + 1, self._fixed) - self._certain)

    def _worth(self, most: int) -> int:
        """How many fixed tokens give the most tokens a second; all of them where no costs are known."""
        if not most or not isinstance(self._length, MeasuredLength):
            return most
        costs, share = self._length.costs, min(1.0, self._agreed / self._tried)
        best, tokens, each = self._certain, 1.0 + self._certain, 1.0
        speed = tokens / (costs.copy_seconds(best) if best else costs.pass_seconds(1))
        for count in range(best + 1, most + 1):
            each *= share
            tokens += each
            if tokens / costs.copy_seconds(count) > speed:
                best, speed = count, tokens / costs.copy_seconds(count)
        return best

    def propose(self, plan: Plan, copy: Copy, context: Sequence[int], random: RandomSource) -> Draft:
        return self._source.propose(plan, copy, context, random)

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        return self._source.translate(draft, max_tokens)

    def verify(self, draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource) -> Verdict:
        return self._source.verify(draft, proposal, probs, random)

    def learn(self, outcome: Outcome, context: list[int]) -> int:
        return self._inner.learn(outcome, context)

    @property
    def _source(self) -> Proposer:
        return self._fixing if self._fixed else self._inner


def _match_length(tokens: Sequence[int], position: int) -> int:
    """How many tokens before a position are the last tokens too; `LONGEST_MATCH` at most."""
    length = 0
    while length < min(LONGEST_MATCH, position) and tokens[position - 1 - length] == tokens[-1 - length]:
        length += 1
    return length
