"""Proposers that the trie is compared with, for research; a port mirrors nothing of this file."""

from collections.abc import Sequence

import numpy as np

from omnidraft.runtime.decoding.decision import TINY, Weights
from omnidraft.runtime.decoding.distribution import Distribution
from omnidraft.runtime.decoding.drafter import Draft
from omnidraft.runtime.decoding.proposer import MatchProposer, TrieProposer
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.translator import Proposal, translate_longest
from omnidraft.runtime.decoding.verifier import Probs, Verdict
from omnidraft.runtime.vocab.trie import ActiveTrie


class DirectProposer(TrieProposer):
    """Direct pairs alone, as published (Timor et al., TLI, arXiv 2502.05202)."""

    uses_cache = False
    expands = False


class DirectMatch(MatchProposer):
    """The same at temperature 0."""

    uses_cache = False
    expands = False


class PaperProposer(TrieProposer):
    """The rule of the OmniDraft paper: approximate above temperature 0 (`verify_paper`)."""

    expands = False

    def translate(self, draft: Draft, max_tokens: int) -> Proposal:
        return translate_longest(draft.tokens, self.trie, max_tokens=max_tokens, expand=self.expands)

    def verify(self, draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource) -> Verdict:
        return verify_paper(proposal, draft.distributions, probs, self.trie, random)


def verify_paper(
    proposal: Proposal, draft: Sequence[Distribution], probs: Probs, trie: ActiveTrie, random: RandomSource
) -> Verdict:
    """The rule of the paper (arXiv 2507.02659, section 3.1): approximate for temperatures above 0.

    An n-gram's proposal is the product of its draft probabilities; the residual gives the first sub-token's
    own target token the rest of its q. Method section 4.1 shows where this leaks.
    """
    start = 0
    for i, proposed in enumerate(proposal.tokens):
        p, end = probs(i), proposal.ends[i]
        q = paper_proposal(trie, draft[start:end], proposed)
        p_tokens = p.probability(np.arange(p.size))
        if not random.bernoulli(float(p_tokens[proposed]) / max(float(q[proposed]), TINY)):
            return Verdict(i, random.categorical(_residual(p_tokens, q)), False, end, start)
        start = end
    token = random.sample(probs(len(proposal.tokens)))
    return Verdict(len(proposal.tokens), token, True, start, start)


def paper_proposal(trie: ActiveTrie, draft: Sequence[Distribution], proposed: int) -> Weights:
    """The paper's q' over the target vocabulary for one proposed token, shape [target vocab].

    Args:
        draft: the drafter's distributions at the token's draft tokens.
    """
    spelling = trie.map.spellings.row(proposed).astype(np.int32)
    direct = trie.map.direct
    mapped = np.flatnonzero(direct >= 0).astype(np.int32)
    q = np.zeros(trie.map.target_size)
    q[direct[mapped]] = draft[0].probability(mapped)
    if len(spelling) > 1:
        steps = [float(each.probability(spelling[j : j + 1])[0]) for j, each in enumerate(draft)]
        product = float(np.prod(steps))
        q[proposed] = product
        first = direct[spelling[0]]
        if first >= 0:
            q[first] = max(steps[0] - product, 0.0)
    return q


def _residual(p: Weights, q: Weights) -> Weights:
    """max(0, P - Q), or P where nothing is left of it (P = Q up to rounding)."""
    residual = p - q
    np.maximum(residual, 0.0, out=residual)
    return residual if residual.any() else p
