"""Judge a proposal so that the output's distribution is exactly the target's.

Pure: distributions and a chooser come in, a verdict goes out. `verify_trie` is speculative sampling on the decisions
of the trie walk one by one (method section 4.2), `verify_block` in its own file judges them together;
`verify_match` and `verify_paper` are the rules they are compared with.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from omnidraft.runtime.decoding.decision import TINY, Weights, decision_probs, resample_or_skip
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import Distribution
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.vocab.trie import ActiveTrie

Rows = Callable[
    [int], Distribution
]  # the target's distribution after n proposed tokens, computed when it is asked for


@dataclass(frozen=True)
class Verdict:
    """What became of a proposal.

    Attributes:
        accepted: proposed target tokens that stand.
        token: the target token after them: a correction, or the bonus when all stand.
        is_bonus: whether every decision was accepted.
        tested, passed: draft tokens that were judged, and those of them that were accepted.
    """

    accepted: int
    token: int
    is_bonus: bool
    tested: int
    passed: int


Verifier = Callable[[Proposal, Sequence[Distribution], Rows, ActiveTrie, RandomSource], Verdict]


def verify_trie(
    proposal: Proposal, draft: Sequence[Distribution], rows: Rows, trie: ActiveTrie, random: RandomSource
) -> Verdict:
    """Speculative sampling on trie decisions, one after another: exact at every temperature.

    Args:
        proposal: the translated draft.
        draft: the drafter's distributions, one for each draft token, as they were sampled from.
        rows: the target's distribution at each proposed position and after the last.
        trie: the active trie that the proposal was translated with, unchanged since.
        random: the source of randomness.
    """
    for decision in proposal.decisions:
        distribution = decision_probs(decision, draft[decision.draft], rows(decision.row), trie)
        if not random.bernoulli(distribution.ratio):
            token = resample_or_skip(distribution, 1.0, random)
            assert token is not None, "with reach 1 a refused decision is always replaced"
            return Verdict(decision.row, token, False, decision.draft + 1, decision.draft)
    return bonus(proposal, rows, trie, random)


def bonus(proposal: Proposal, rows: Rows, trie: ActiveTrie, random: RandomSource) -> Verdict:
    """All decisions stand: one more token, below the node that the draft ended in, if it ended in one."""
    below = None if proposal.tail is None else trie.targets(proposal.tail)
    token = random.sample(rows(len(proposal.tokens)), below)
    return Verdict(len(proposal.tokens), token, True, proposal.used, proposal.used)


def verify_match(
    proposal: Proposal, draft: Sequence[Distribution], rows: Rows, trie: ActiveTrie, random: RandomSource
) -> Verdict:
    """Draw from the target and accept while the draw is what was proposed: exact for any translator."""
    return match(proposal, rows, random)


def match(proposal: Proposal, rows: Rows, random: RandomSource) -> Verdict:
    """The rule of `verify_match`, which needs neither the drafter's distributions nor a trie."""
    used = 0
    for i, proposed in enumerate(proposal.tokens):
        token = random.sample(rows(i))
        if token != proposed:
            return Verdict(i, token, False, proposal.ends[i], used)
        used = proposal.ends[i]
    return Verdict(len(proposal.tokens), random.sample(rows(len(proposal.tokens))), True, used, used)


def verify_paper(
    proposal: Proposal, draft: Sequence[Distribution], rows: Rows, trie: ActiveTrie, random: RandomSource
) -> Verdict:
    """The paper's rule (arXiv 2507.02659, section 3.1): approximate for temperatures above 0.

    An n-gram's proposal is the product of its draft probabilities; the residual gives the first sub-token's
    own target token what is left of its q. Method section 4.1 shows where this leaks.
    """
    start = 0
    for i, proposed in enumerate(proposal.tokens):
        p, end = rows(i), proposal.ends[i]
        q = paper_proposal(trie, draft[start:end], proposed)
        everything = p.probability(np.arange(p.size))
        if not random.bernoulli(float(everything[proposed]) / max(float(q[proposed]), TINY)):
            return Verdict(i, random.categorical(_residual(everything, q)), False, end, start)
        start = end
    return Verdict(len(proposal.tokens), random.sample(rows(len(proposal.tokens))), True, start, start)


def _residual(wanted: Weights, offered: Weights) -> Weights:
    """max(0, P - Q), or P where nothing is left of it (P = Q up to rounding)."""
    left = wanted - offered
    np.maximum(left, 0.0, out=left)
    return left if left.any() else wanted


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
        steps = [
            float(distribution.probability(spelling[j : j + 1])[0]) for j, distribution in enumerate(draft)
        ]
        product = float(np.prod(steps))
        q[proposed] = product
        first = direct[spelling[0]]
        if first >= 0:
            q[first] = max(steps[0] - product, 0.0)
    return q
