"""The labels that a trace keeps: the probability that each decision of a round was accepted with."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.baselines import paper_proposal
from omnidraft.runtime.decoding.decision import TINY, decision_probs
from omnidraft.runtime.decoding.proposer import Outcome, Proposer
from omnidraft.runtime.decoding.translator import Proposal, Step
from omnidraft.runtime.decoding.verifier import Probs, Verdict
from omnidraft.runtime.traces.trace import DecisionLabel, Kind
from omnidraft.runtime.vocab.trie import ActiveTrie

_KINDS = {step: Kind[step.name] for step in Step}


def labels_of(proposer: Proposer, outcome: Outcome, probs: Probs) -> tuple[DecisionLabel, ...]:
    """The labels of a round, before anything is learned from it."""
    if outcome.draft.copied:
        return ()
    if proposer.rule == "match":
        return tuple(label_match(outcome, probs))
    assert proposer.trie is not None
    label = label_paper if proposer.rule == "paper" else label_decisions
    return tuple(label(outcome, probs, proposer.trie))


def label_decisions(outcome: Outcome, probs: Probs, trie: ActiveTrie) -> Iterator[DecisionLabel]:
    """min(1, P/Q) of each decision up to the refused one (`verify_tokens`, `verify_block`)."""
    verdict, draft = outcome.verdict, outcome.draft.distributions
    for decision in outcome.proposal.decisions:
        if decision.row > verdict.accepted or decision.draft >= verdict.evaluated:
            return
        decided = decision_probs(decision, draft[decision.draft], probs(decision.row), trie)
        yield DecisionLabel(_KINDS[decision.step], decision.draft, _label(decided.ratio))


def label_match(outcome: Outcome, probs: Probs) -> Iterator[DecisionLabel]:
    """The target's probability of each proposed token (`verify_match`); 1 or 0 at temperature 0."""
    proposal = outcome.proposal
    for i in _evaluated(proposal, outcome.verdict):
        probability = float(probs(i).mass(_one(proposal, i)))
        yield DecisionLabel(Kind.WHOLE, proposal.ends[i] - 1, _label(probability))


def label_paper(outcome: Outcome, probs: Probs, trie: ActiveTrie) -> Iterator[DecisionLabel]:
    """min(1, p/q') of each proposed token (`verify_paper`)."""
    proposal, draft, start = outcome.proposal, outcome.draft.distributions, 0
    for i in _evaluated(proposal, outcome.verdict):
        proposed, end = proposal.tokens[i], proposal.ends[i]
        q = float(paper_proposal(trie, draft[start:end], proposed)[proposed])
        ratio = float(probs(i).mass(_one(proposal, i))) / max(q, TINY)
        yield DecisionLabel(Kind.WHOLE, end - 1, _label(ratio))
        start = end


def _evaluated(proposal: Proposal, verdict: Verdict) -> range:
    return range(min(verdict.accepted + (not verdict.is_bonus), len(proposal.tokens)))


def _label(ratio: float) -> float:
    return min(1.0, max(0.0, ratio))


def _one(proposal: Proposal, i: int) -> npt.NDArray[np.int64]:
    return np.array([proposal.tokens[i]])
