"""Where proposals come from: the interface between the loop and a drafter, or another source of guesses.

A mode is a Proposer. Each proposer verifies its own guesses, so that the output's distribution is the
target's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from omnidraft.runtime.decoding.draft_length import Plan
from omnidraft.runtime.decoding.drafter import Allowed, Draft, Drafter
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.translator import Proposal, translate, translate_longest
from omnidraft.runtime.decoding.verifier import Probs, Verdict, Verifier, verify_match, verify_tokens
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.trie import ActiveTrie
from omnidraft.runtime.vocab.vocab_map import VocabMap


@dataclass(frozen=True)
class Copy:
    """How the context suggests that a text continues.

    Attributes:
        match: tokens before them that occurred in the same order before; 0 where none did.
    """

    tokens: Sequence[int] = ()
    match: int = 0


NO_COPY = Copy()


@dataclass(frozen=True)
class Outcome:
    """A verified round before anything was learned from it.

    Attributes:
        emitted: target ids that are output, which may end before the verdict does.
    """

    draft: Draft
    proposal: Proposal
    verdict: Verdict
    emitted: Sequence[int]


class Proposer(Protocol):
    """Guesses how a text continues, and verifies its own guesses."""

    def find(self, tokens: Sequence[int]) -> Copy:
        """What could be copied from the context; `NO_COPY` where this proposer copies nothing.

        Args:
            tokens: all target ids so far; from round to round they only grow.
        """

    def propose(self, plan: Plan, copy: Copy, context: Sequence[int], random: RandomSource) -> Draft:
        """Tokens that may follow, as planned."""

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        """The draft in target tokens, at most `max_tokens` of them."""

    def verify(self, draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource) -> Verdict:
        """Verify the proposal by the target's distributions."""

    def learn(self, outcome: Outcome, context: list[int]) -> int:
        """Append the round's output to the draft context and learn from it.

        Returns:
            number of n-grams that are new in the cache.
        """


class TrieProposer:
    """Asks the drafter and translates its tokens by the trie of active spellings (method section 4.2)."""

    uses_cache = True  # else only direct pairs (tokens of equal bytes) are spelled
    expands = True  # whether draft tokens longer than a target token are translated

    def __init__(
        self, drafter: Drafter, cache: NgramCache, temperature: float, verify: Verifier = verify_tokens
    ) -> None:
        """
        Args:
            drafter: the small model; its KV cache is rewritten.
            cache: n-grams, which grow where `uses_cache`.
            temperature: of the drafter's distribution. Truncation and penalties are not applied to it: the
                output is exact with any distribution q, if the verifier gets the same q.
            verify: `verify_tokens` or `verify_block`.
        """
        self.drafter, self.cache, self._temperature, self._verify = drafter, cache, temperature, verify
        self.trie = cache.trie if self.uses_cache else ActiveTrie(cache.map)
        untranslatable = ~cache.map.draft_allowed if self.uses_cache else cache.map.direct < 0
        self._banned = np.flatnonzero(untranslatable)
        self._allowed: Allowed | None = None

    def allow(self, allowed: Allowed) -> None:
        """Draft only ids that may follow the drafted ones, as in a grammar; see `Drafter.propose`."""
        self._allowed = allowed

    def find(self, tokens: Sequence[int]) -> Copy:
        return NO_COPY

    def propose(self, plan: Plan, copy: Copy, context: Sequence[int], random: RandomSource) -> Draft:
        if not plan.count:
            return Draft()
        return self.drafter.propose(context, plan, self._temperature, self._banned, random, self._allowed)

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        return translate(draft.tokens, self.trie, max_tokens=max_tokens, expand=self.expands)

    def verify(self, draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource) -> Verdict:
        return self._verify(proposal, draft.distributions, probs, self.trie, random, self.drafter.workspace)

    def learn(self, outcome: Outcome, context: list[int]) -> int:
        tokens = outcome.verdict.tokens(outcome.proposal)
        context += respell(outcome.draft, outcome.proposal, tokens, self.cache.map)
        if not self.uses_cache:
            return 0
        emitted = outcome.emitted
        return self.cache.learn(emitted, min(outcome.verdict.accepted, len(emitted)))


class MatchProposer(TrieProposer):
    """Translates by the longest spelling and accepts what the target samples: used at temperature 0."""

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        return translate_longest(draft.tokens, self.trie, max_tokens=max_tokens, expand=self.expands)

    def verify(self, draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource) -> Verdict:
        return verify_match(proposal, probs, random)


def respell(draft: Draft, proposal: Proposal, tokens: Sequence[int], vocab_map: VocabMap) -> list[int]:
    """A round's output in draft tokens: the draft as far as it was accepted, then the spelling of the rest.

    Example: the draft token "sfo" stands for the target tokens S, F, O. If all three are accepted, the draft
    token stays. If only S and F are accepted, both are spelled again: "s", "f".

    Args:
        tokens: accepted proposed tokens, and the one after them.
    """
    ends, whole = [0, *proposal.ends], 0
    if draft.tokens:  # else no drafter spelled them
        whole = min(len(tokens) - 1, len(proposal.ends))
        # A long draft token that was accepted in part only is spelled again.
        while 0 < whole < len(proposal.ends) and ends[whole + 1] == ends[whole]:
            whole -= 1
    return draft.tokens[: ends[whole]] + [d for token in tokens[whole:] for d in vocab_map.spell(token)]
