"""Every mode by its name, and the proposers that the trie is compared with.

The baselines serve research; a port offers trie, lookup and plain alone, and mirrors nothing of this file.
"""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.decision import TINY, Weights
from omnidraft.runtime.decoding.distribution import Distribution
from omnidraft.runtime.decoding.drafter import Draft, Drafter
from omnidraft.runtime.decoding.prompt_lookup import CopyingProposer, PlainProposer, PromptLookup
from omnidraft.runtime.decoding.proposer import MatchProposer, Proposer, Rule, TrieProposer
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.translator import Proposal, translate_longest
from omnidraft.runtime.decoding.verifier import Probs, Verdict, verify_block, verify_tokens
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.trie import ActiveTrie

Mode = Literal["trie", "match", "direct", "paper", "lookup", "plain"]
MODES: tuple[Mode, ...] = get_args(Mode)
Verification = Literal["token", "block"]
VERIFICATIONS: tuple[Verification, ...] = get_args(Verification)


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

    rule: Rule = "paper"
    expands = False

    def translate(self, draft: Draft, room: int) -> Proposal:
        return translate_longest(draft.tokens, self.trie, max_tokens=room, expand=self.expands)

    def verify(self, draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource) -> Verdict:
        return verify_paper(proposal, draft.distributions, probs, self.trie, random)


_Drafting = Callable[[Drafter, NgramCache, float], TrieProposer]
_SAMPLED: dict[Mode, _Drafting] = {
    "trie": TrieProposer,
    "match": MatchProposer,
    "direct": DirectProposer,
    "paper": PaperProposer,
}
# At temperature 0 a proposal is accepted while it is the argmax, so all modes share one rule.
_GREEDY: dict[Mode, _Drafting] = {
    "trie": MatchProposer,
    "match": MatchProposer,
    "direct": DirectMatch,
    "paper": MatchProposer,
}


def proposer_for(
    mode: Mode,
    drafter: Drafter,
    cache: NgramCache,
    temperature: float,
    verification: Verification = "token",
    *,
    copies: bool = False,
) -> Proposer:
    """The proposer of a mode.

    Args:
        mode: one of `MODES`.
        drafter, cache: what modes that draft with the small model use.
        temperature: of the sampling.
        verification: of mode trie above temperature 0: decision by decision, or as a block.
        copies: whether the context is a second source of proposals.

    Raises:
        SettingError: an unknown mode or verification.
    """
    check_mode(mode, verification)
    if mode in ("lookup", "plain"):
        return PromptLookup() if mode == "lookup" else PlainProposer()
    drafting = _drafting_proposer(mode, drafter, cache, temperature, verification)
    return CopyingProposer(drafting) if copies else drafting


def _drafting_proposer(
    mode: Mode, drafter: Drafter, cache: NgramCache, temperature: float, verification: Verification
) -> TrieProposer:
    if temperature == 0.0:
        return _GREEDY[mode](drafter, cache, temperature)
    if mode == "trie":
        verify = verify_block if verification == "block" else verify_tokens
        return TrieProposer(drafter, cache, temperature, verify)
    return _SAMPLED[mode](drafter, cache, temperature)


def check_mode(mode: str, verification: str = "token") -> None:
    """
    Raises:
        SettingError: an unknown mode or verification.
    """
    for name, value, known in (("mode", mode, MODES), ("verification", verification, VERIFICATIONS)):
        if value not in known:
            raise SettingError(f'{name} "{value}" is unknown', f"use one of {', '.join(known)}", setting=name)


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
        trie: gives the spellings.
        draft: the drafter's distributions at the token's draft tokens.
        proposed: the target token.
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
