"""How likely each test of a round was to be passed: the labels that a trace keeps.

Read from the same distributions as the verdict, after it, so that no verifier has to keep them. One function for each
way to judge.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.decision import TINY, decision_probs
from omnidraft.runtime.decoding.sampling import Distribution
from omnidraft.runtime.decoding.translator import Proposal, Step
from omnidraft.runtime.decoding.verifier import Rows, Verdict, paper_proposal
from omnidraft.runtime.traces.trace import DecisionLabel, Kind
from omnidraft.runtime.vocab.trie import ActiveTrie

Labeller = Callable[[Proposal, Sequence[Distribution], Rows, ActiveTrie, Verdict], Iterator[DecisionLabel]]
_KINDS = {step: Kind[step.name] for step in Step}


def label_decisions(
    proposal: Proposal, draft: Sequence[Distribution], rows: Rows, trie: ActiveTrie, verdict: Verdict
) -> Iterator[DecisionLabel]:
    """min(1, P/Q) of each decision up to the refused one (`verify_trie`, `verify_block`).

    Args:
        proposal, draft, rows, trie: as the verifier had them. verdict: what it found.
    """
    for decision in proposal.decisions:
        if decision.row > verdict.accepted or decision.draft >= verdict.tested:
            return
        distribution = decision_probs(decision, draft[decision.draft], rows(decision.row), trie)
        yield DecisionLabel(_KINDS[decision.step], decision.draft, _label(distribution.ratio))


def label_match(
    proposal: Proposal, draft: Sequence[Distribution], rows: Rows, trie: ActiveTrie, verdict: Verdict
) -> Iterator[DecisionLabel]:
    """The target's probability of each proposed token (`verify_match`); 1 or 0 at temperature 0."""
    for i in _tested(proposal, verdict):
        chance = float(rows(i).mass(_one(proposal, i)))
        yield DecisionLabel(Kind.WHOLE, proposal.ends[i] - 1, _label(chance))


def label_paper(
    proposal: Proposal, draft: Sequence[Distribution], rows: Rows, trie: ActiveTrie, verdict: Verdict
) -> Iterator[DecisionLabel]:
    """min(1, p/q') of each proposed token (`verify_paper`)."""
    start = 0
    for i in _tested(proposal, verdict):
        proposed, end = proposal.tokens[i], proposal.ends[i]
        q = float(paper_proposal(trie, draft[start:end], proposed)[proposed])
        yield DecisionLabel(
            Kind.WHOLE, end - 1, _label(float(rows(i).mass(_one(proposal, i))) / max(q, TINY))
        )
        start = end


def _tested(proposal: Proposal, verdict: Verdict) -> range:
    """Proposed tokens that were judged: those that stand, and the refused one."""
    return range(min(verdict.accepted + (not verdict.is_bonus), len(proposal.tokens)))


def _label(ratio: float) -> float:
    return min(1.0, max(0.0, ratio))


def _one(proposal: Proposal, i: int) -> npt.NDArray[np.int64]:
    return np.array([proposal.tokens[i]])
