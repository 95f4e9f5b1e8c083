"""Where proposals come from: what the loop asks of a drafter, or of anything else that guesses on.

A proposer keeps its own context. The loop tells it all target tokens before a round and the outcome after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from omnidraft.runtime.drafter import Draft, Drafter
from omnidraft.runtime.ngram_cache import NgramCache
from omnidraft.runtime.rng import Chooser
from omnidraft.runtime.translator import Proposal
from omnidraft.runtime.trie import ActiveTrie
from omnidraft.runtime.verifier import Rows, Verdict, Verifier


class Proposer(Protocol):
    """Guesses on from a context, and judges its own guesses so that the output's law is the target's."""

    def propose(self, tokens: Sequence[int], count: int, choose: Chooser) -> Draft:
        """At most `count` >= 1 tokens that may follow.

        Args:
            tokens: all target ids so far; from round to round they only grow.
            count: draft tokens at most.
            choose: answers the random questions.
        """

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        """The draft in target tokens, `max_tokens` at most."""

    def verify(self, draft: Draft, proposal: Proposal, rows: Rows, choose: Chooser) -> Verdict:
        """Judge the proposal by the target's laws."""

    def learn(self, draft: Draft, proposal: Proposal, verdict: Verdict, emitted: Sequence[int]) -> int:
        """Take in what became of the round; return the number of new n-grams.

        Args:
            draft, proposal, verdict: the round's.
            emitted: target ids that are output, which may end before the verdict does.
        """


@dataclass(frozen=True)
class Method:
    """How a draft is translated and judged."""

    translate: Callable[..., Proposal]
    verify: Verifier
    uses_cache: bool = True
    expands: bool = True


class DraftModel:
    """A `Proposer` that asks the drafter and translates what it says through the n-gram cache."""

    def __init__(
        self,
        method: Method,
        drafter: Drafter,
        cache: NgramCache,
        context: list[int],
        temperature: float,
    ) -> None:
        """
        Args:
            method: how to translate and judge.
            drafter: the small model; its context is rewritten.
            cache: n-grams, which grow where the method uses them.
            context: the text so far in draft ids; grows by what each round says.
            temperature: of the drafter's law. Truncation and penalties are the target's alone: any law to
                draft from is exact, as long as it is the one that was drafted from.
        """
        self._method, self._drafter, self._cache = method, drafter, cache
        self._context, self._temperature = context, temperature
        self._trie = cache.trie if method.uses_cache else ActiveTrie(cache.map)
        useless = ~cache.map.draft_allowed if method.uses_cache else cache.map.direct < 0
        self._banned = np.flatnonzero(useless)

    def propose(self, tokens: Sequence[int], count: int, choose: Chooser) -> Draft:
        return self._drafter.propose(self._context, count, self._temperature, self._banned, choose)

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        expands = self._method.expands
        return self._method.translate(draft.tokens, self._trie, max_tokens=max_tokens, expand=expands)

    def verify(self, draft: Draft, proposal: Proposal, rows: Rows, choose: Chooser) -> Verdict:
        return self._method.verify(proposal, draft.laws, rows, self._trie, choose)

    def learn(self, draft: Draft, proposal: Proposal, verdict: Verdict, emitted: Sequence[int]) -> int:
        self._context += _draft_context(draft, proposal, verdict, self._cache)
        if not self._method.uses_cache:
            return 0
        return self._cache.learn(emitted, min(verdict.accepted, len(emitted)))


def _draft_context(draft: Draft, proposal: Proposal, verdict: Verdict, cache: NgramCache) -> list[int]:
    """The round's output in draft tokens: the draft as far as it stands, then the spelling of the rest."""
    whole = verdict.accepted
    # A long draft token that stands in part only is spelled anew.
    while 0 < whole < len(proposal.ends) and proposal.ends[whole] == proposal.ends[whole - 1]:
        whole -= 1
    kept = draft.tokens[: proposal.ends[whole - 1]] if whole else []
    rest = [*proposal.tokens[whole : verdict.accepted], verdict.token]
    return kept + [d for token in rest for d in cache.map.spell(token)]
