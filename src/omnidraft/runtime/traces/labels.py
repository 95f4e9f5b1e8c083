"""How likely each test of a round was to be passed: the labels that a trace keeps.

Read from the same laws as the verdict, after it, so that no verifier has to keep them. One function for each
way to judge.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.decision import TINY, decision_law
from omnidraft.runtime.decoding.sampling import Law
from omnidraft.runtime.decoding.translator import Proposal, Step
from omnidraft.runtime.decoding.verifier import Rows, Verdict, paper_proposal
from omnidraft.runtime.traces.trace import Judged, Kind
from omnidraft.runtime.vocab.trie import ActiveTrie

Judge = Callable[[Proposal, Sequence[Law], Rows, ActiveTrie, Verdict], Iterator[Judged]]
_KINDS = {step: Kind[step.name] for step in Step}


def judge_decisions(
    proposal: Proposal, draft: Sequence[Law], rows: Rows, trie: ActiveTrie, verdict: Verdict
) -> Iterator[Judged]:
    """min(1, P/Q) of each decision up to the refused one (`verify_trie`, `verify_block`).

    Args:
        proposal, draft, rows, trie: as the verifier had them. verdict: what it found.
    """
    for decision in proposal.decisions:
        if decision.row > verdict.accepted or decision.draft >= verdict.tested:
            return
        law = decision_law(decision, draft[decision.draft], rows(decision.row), trie)
        yield Judged(_KINDS[decision.step], decision.draft, _label(law.ratio))


def judge_match(
    proposal: Proposal, draft: Sequence[Law], rows: Rows, trie: ActiveTrie, verdict: Verdict
) -> Iterator[Judged]:
    """The target's probability of each proposed token (`verify_match`); 1 or 0 at temperature 0."""
    for i in _tested(proposal, verdict):
        chance = float(rows(i).mass(_one(proposal, i)))
        yield Judged(Kind.WHOLE, proposal.ends[i] - 1, _label(chance))


def judge_paper(
    proposal: Proposal, draft: Sequence[Law], rows: Rows, trie: ActiveTrie, verdict: Verdict
) -> Iterator[Judged]:
    """min(1, p/q') of each proposed token (`verify_paper`)."""
    start = 0
    for i in _tested(proposal, verdict):
        proposed, end = proposal.tokens[i], proposal.ends[i]
        q = float(paper_proposal(trie, draft[start:end], proposed)[proposed])
        yield Judged(Kind.WHOLE, end - 1, _label(float(rows(i).mass(_one(proposal, i))) / max(q, TINY)))
        start = end


def _tested(proposal: Proposal, verdict: Verdict) -> range:
    """Proposed tokens that were judged: those that stand, and the refused one."""
    return range(min(verdict.accepted + (not verdict.is_bonus), len(proposal.tokens)))


def _label(ratio: float) -> float:
    return min(1.0, max(0.0, ratio))


def _one(proposal: Proposal, i: int) -> npt.NDArray[np.int64]:
    return np.array([proposal.tokens[i]])
