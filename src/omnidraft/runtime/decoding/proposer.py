"""Where proposals come from: what the loop asks of a drafter, or of anything else that guesses on.

A proposer keeps its own context. The loop tells it all target tokens before a round and the outcome after it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from omnidraft.runtime.decoding.drafter import Draft, Drafter, More
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.decoding.verifier import Rows, Verdict, Verifier
from omnidraft.runtime.traces.labels import Labeller, label_decisions
from omnidraft.runtime.traces.trace import DecisionLabel
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.trie import ActiveTrie
from omnidraft.runtime.vocab.vocab_map import VocabMap


class Proposer(Protocol):
    """Guesses on from a context, and judges its own guesses so that the output's distribution is the target's."""

    def propose(
        self, tokens: Sequence[int], count: int, random: RandomSource, more: More | None = None
    ) -> Draft:
        """At most `count` >= 1 tokens that may follow.

        Args:
            tokens: all target ids so far; from round to round they only grow.
            count: draft tokens at most.
            random: the source of randomness.
            more: see `Drafter.propose`.
        """

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        """The draft in target tokens, `max_tokens` at most."""

    def verify(self, draft: Draft, proposal: Proposal, rows: Rows, random: RandomSource) -> Verdict:
        """Labeller the proposal by the target's distributions."""

    def judged(
        self, draft: Draft, proposal: Proposal, verdict: Verdict, rows: Rows
    ) -> Iterable[DecisionLabel]:
        """What was tested and how likely it was to pass; asked only for a trace, and before `learn`."""

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
    judge: Labeller = label_decisions


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
            temperature: of the drafter's distribution. Truncation and penalties are the target's alone: any distribution to
                draft from is exact, as long as it is the one that was drafted from.
        """
        self._method, self._drafter, self._cache = method, drafter, cache
        self._context, self._temperature = context, temperature
        self._trie = cache.trie if method.uses_cache else ActiveTrie(cache.map)
        useless = ~cache.map.draft_allowed if method.uses_cache else cache.map.direct < 0
        self._banned = np.flatnonzero(useless)

    def propose(
        self, tokens: Sequence[int], count: int, random: RandomSource, more: More | None = None
    ) -> Draft:
        return self._drafter.propose(self._context, count, self._temperature, self._banned, random, more)

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        expands = self._method.expands
        return self._method.translate(draft.tokens, self._trie, max_tokens=max_tokens, expand=expands)

    def verify(self, draft: Draft, proposal: Proposal, rows: Rows, random: RandomSource) -> Verdict:
        return self._method.verify(proposal, draft.distributions, rows, self._trie, random)

    def judged(
        self, draft: Draft, proposal: Proposal, verdict: Verdict, rows: Rows
    ) -> Iterable[DecisionLabel]:
        return self._method.judge(proposal, draft.distributions, rows, self._trie, verdict)

    def learn(self, draft: Draft, proposal: Proposal, verdict: Verdict, emitted: Sequence[int]) -> int:
        said = [*proposal.tokens[: verdict.accepted], verdict.token]
        for token in written(draft, proposal, said, self._cache.map):
            self._context += token.draft_ids
        if not self._method.uses_cache:
            return 0
        return self._cache.learn(emitted, min(verdict.accepted, len(emitted)))


@dataclass(frozen=True)
class Written:
    """A target token in draft tokens; `inside` a longer one that an earlier target token has, it has none."""

    draft_ids: list[int]
    inside: bool = False


def written(draft: Draft, proposal: Proposal, said: Sequence[int], vocab_map: VocabMap) -> list[Written]:
    """A round's output in draft tokens: the draft as far as it stands, then the spelling of the rest.

    Args:
        draft, proposal: the round's. said: proposed tokens that stand, and the one after them.
        vocab_map: gives the spellings.
    """
    ends = [0, *proposal.ends]
    whole = min(len(said) - 1, len(proposal.ends))
    # A long draft token that stands in part only is spelled anew.
    while 0 < whole < len(proposal.ends) and ends[whole + 1] == ends[whole]:
        whole -= 1
    kept = [Written(draft.tokens[ends[i] : ends[i + 1]], ends[i] == ends[i + 1]) for i in range(whole)]
    return kept + [Written(vocab_map.spell(token)) for token in said[whole:]]
