"""Judge a proposal so that the output's law is exactly the target's.

Pure: laws and a chooser come in, a verdict goes out. `verify_trie` is speculative sampling on the decisions
of the trie walk (method section 4.2); `verify_match` and `verify_paper` are the rules it is compared with.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.rng import Chooser
from omnidraft.runtime.sampler import Ids, Law
from omnidraft.runtime.translator import Decision, Proposal, Step
from omnidraft.runtime.trie import ActiveTrie

Rows = Callable[[int], Law]  # the target's law after n proposed tokens, computed when it is asked for
Weights = npt.NDArray[np.float64]


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


Verifier = Callable[[Proposal, Sequence[Law], Rows, ActiveTrie, Chooser], Verdict]


def verify_trie(
    proposal: Proposal, draft: Sequence[Law], rows: Rows, trie: ActiveTrie, choose: Chooser
) -> Verdict:
    """Speculative sampling on trie decisions: exact at every temperature.

    Args:
        proposal: the translated draft.
        draft: the drafter's laws, one for each draft token, as they were sampled from.
        rows: the target's law at each proposed position and after the last.
        trie: the active trie that the proposal was translated with, unchanged since.
        choose: answers the random questions.
    """
    for decision in proposal.decisions:
        token = _test(decision, draft[decision.draft], rows(decision.row), trie, choose)
        if token is not None:
            return Verdict(decision.row, token, False, decision.draft + 1, decision.draft)
    law = rows(len(proposal.tokens))
    token = choose.token(law, None if proposal.tail is None else trie.targets(proposal.tail))
    return Verdict(len(proposal.tokens), token, True, proposal.used, proposal.used)


def verify_match(
    proposal: Proposal, draft: Sequence[Law], rows: Rows, trie: ActiveTrie, choose: Chooser
) -> Verdict:
    """Draw from the target and accept while the draw is what was proposed: exact for any translator."""
    used = 0
    for i, proposed in enumerate(proposal.tokens):
        token = choose.token(rows(i))
        if token != proposed:
            return Verdict(i, token, False, proposal.ends[i], used)
        used = proposal.ends[i]
    return Verdict(len(proposal.tokens), choose.token(rows(len(proposal.tokens))), True, used, used)


def _test(decision: Decision, q: Law, p: Law, trie: ActiveTrie, choose: Chooser) -> int | None:
    """Test one decision: None when it is accepted, else the target token that replaces it."""
    if decision.step is Step.EXPAND:
        token = choose.token(p)  # a point mass is accepted iff a draw from p equals it
        return None if token == decision.target_id else token
    if decision.step is Step.BEGIN:
        return _test_root(decision, q, p, trie, choose)
    return _test_inside(decision, q, p, trie, choose)


def _test_root(decision: Decision, q: Law, p: Law, trie: ActiveTrie, choose: Chooser) -> int | None:
    """A draft token that begins a spelling, against q renormalised over the root's children minus E."""
    assert decision.node is not None
    begun = np.array([_entered(decision, trie)])
    excluded = None if decision.excluded is None else trie.children(decision.excluded)[0]
    possible = q.mass_under(trie.root_mask)
    if excluded is not None:
        possible -= float((q.probability(excluded) * trie.root_mask[excluded]).sum())
    chance = p.mass(trie.targets(decision.node))
    if choose.accept(chance * possible / max(float(q.probability(begun)[0]), 1e-300)):
        return None
    token = _thinned(p, q, trie, excluded, possible, choose)
    if token is not None:
        return token
    # One option more than draft tokens: the target tokens that nothing spells now, proposed never.
    wanted = trie.root_masses(p)
    offered = np.zeros_like(wanted)
    offered[:-1] = q.masked(trie.root_mask)
    if excluded is not None:
        offered[excluded] = 0.0
    offered /= offered.sum()
    option = choose.index(_residual(wanted, offered))
    if option == len(wanted) - 1:
        return choose.token(p.without(trie.spelled()))
    node = trie.root(option)
    assert node is not None
    return choose.token(p, trie.targets(node))


def _thinned(
    p: Law, q: Law, trie: ActiveTrie, excluded: Ids | None, possible: float, choose: Chooser
) -> int | None:
    """One try at the residual by thinning: a draw from p, kept with probability max(0, P - Q) / P.

    What is kept has the residual's law, and what is not leaves that law to the full computation; most tries
    are kept, and spare a pass over both vocabularies.
    """
    token = choose.token(p)
    leaf = int(trie.map.leaf_of[token])
    if leaf < 0 or not trie.active[leaf]:
        return token  # nothing spells it, so nothing was offered in its place
    first = int(trie.map.leaf_firsts[leaf])
    if excluded is not None and (excluded == first).any():
        return token
    node = trie.root(first)
    assert node is not None
    offered = float(q.probability(np.array([first]))[0]) / possible
    return token if choose.accept(1.0 - offered / p.mass(trie.targets(node))) else None


def _test_inside(decision: Decision, q: Law, p: Law, trie: ActiveTrie, choose: Chooser) -> int | None:
    """A draft token inside a node: it goes on to a child, ends the token, or fits neither."""
    node = decision.parent if decision.step is Step.GO_ON else decision.node
    assert node is not None
    tokens, targets, owner = trie.children(node)
    wanted: Weights = np.bincount(owner, p.probability(targets), len(tokens)).astype(np.float64)
    offered = q.probability(tokens)
    ending = trie.terminal(node)
    if ending is not None:  # END is one more option, proposed whenever no child is
        wanted = np.append(wanted, p.probability(np.array([ending])))
        offered = np.append(offered, max(0.0, 1.0 - float(offered.sum())))
    wanted /= wanted.sum()
    if decision.step is not Step.DEAD_END:
        option = (
            len(tokens)
            if decision.step is Step.END
            else int(np.searchsorted(tokens, _entered(decision, trie)))
        )
        if choose.accept(float(wanted[option]) / max(float(offered[option]), 1e-300)):
            return None
    option = choose.index(_residual(wanted, offered))
    if option == len(tokens):
        return ending
    return choose.token(p, targets[owner == option])


def _entered(decision: Decision, trie: ActiveTrie) -> int:
    """The draft token that leads into a decision's node."""
    assert decision.node is not None
    return trie.draft_token(decision.node)


def _residual(wanted: Weights, offered: Weights) -> Weights:
    """max(0, P - Q), or P where nothing is left of it (P = Q up to rounding)."""
    left = wanted - offered
    np.maximum(left, 0.0, out=left)
    return left if left.any() else wanted


def verify_paper(
    proposal: Proposal, draft: Sequence[Law], rows: Rows, trie: ActiveTrie, choose: Chooser
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
        if not choose.accept(float(everything[proposed]) / max(float(q[proposed]), 1e-300)):
            return Verdict(i, choose.index(_residual(everything, q)), False, end, start)
        start = end
    return Verdict(len(proposal.tokens), choose.token(rows(len(proposal.tokens))), True, start, start)


def paper_proposal(trie: ActiveTrie, draft: Sequence[Law], proposed: int) -> Weights:
    """The paper's q' over the target vocabulary for one proposed token, shape [target vocab].

    Args:
        trie: gives the spellings.
        draft: the drafter's laws at the token's draft tokens.
        proposed: the target token.
    """
    spelling = trie.map.spellings.row(proposed).astype(np.int32)
    direct = trie.map.direct
    mapped = np.flatnonzero(direct >= 0).astype(np.int32)
    q = np.zeros(trie.map.target_size)
    q[direct[mapped]] = draft[0].probability(mapped)
    if len(spelling) > 1:
        steps = [float(law.probability(spelling[j : j + 1])[0]) for j, law in enumerate(draft)]
        product = float(np.prod(steps))
        q[proposed] = product
        first = direct[spelling[0]]
        if first >= 0:
            q[first] = max(steps[0] - product, 0.0)
    return q
