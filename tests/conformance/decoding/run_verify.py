"""Runner of `verify`: translation, the verdict, and the contexts after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformance.given_uniforms import GivenUniforms
from conformance.vectors import Vector, cache_of, close
from omnidraft.runtime.decoding.baselines import PaperProposer, paper_proposal
from omnidraft.runtime.decoding.distribution import Categorical, Distribution
from omnidraft.runtime.decoding.draft_length import Plan
from omnidraft.runtime.decoding.drafter import Draft, Drafter
from omnidraft.runtime.decoding.proposer import NO_COPY, MatchProposer, Outcome, TrieProposer
from omnidraft.runtime.decoding.verifier import verify_block, verify_tokens
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from support.toy import ContextModel

PROPOSERS = {"token": TrieProposer, "block": TrieProposer, "match": MatchProposer, "paper": PaperProposer}


class ContextRecorder(Drafter):
    """A drafter that only records its context."""

    context: list[int]

    def propose(self, context: Sequence[int], *others: Any) -> Draft:
        self.context = list(context)
        return Draft()


def run_verify(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    if "proposed" in given:
        _run_paper_distribution(vector)
        return
    random = GivenUniforms(given["uniforms"])
    cache, recorder = cache_of(given), ContextRecorder(ContextModel(0, 2))
    verify = verify_block if given["rule"] == "block" else verify_tokens
    proposer = PROPOSERS[given["rule"]](recorder, cache, 1.0, verify)
    draft = Draft(given["draft"], _distributions(given["q"]))
    proposal = proposer.translate(draft, 8)
    assert proposal.tokens == given["proposal"]
    verdict = proposer.verify(draft, proposal, _distributions(given["p"]).__getitem__, random)
    random.finish()
    actual = (verdict.accepted, verdict.token, verdict.is_bonus, verdict.evaluated, verdict.accepted_drafts)
    assert actual == tuple(
        expect[k] for k in ("accepted", "token", "is_bonus", "evaluated", "accepted_drafts")
    )
    assert len(proposal.tokens) - verdict.accepted == expect["target_rewind"]
    kept = given["draft"][: len(given["draft"]) - expect["draft_rewind"]]
    outcome = Outcome(draft, proposal, verdict, verdict.tokens(proposal))
    assert _context_after(proposer, recorder, outcome) == kept + expect["draft_append"]


def _context_after(proposer: TrieProposer, recorder: ContextRecorder, outcome: Outcome) -> list[int]:
    """The context that the drafter continues in the next round."""
    context: list[int] = []
    proposer.learn(outcome, context)
    proposer.propose(Plan("draft", 1), NO_COPY, context, GivenUniforms([]))
    return recorder.context


def _run_paper_distribution(vector: Vector) -> None:
    given = vector["input"]
    cache: NgramCache = cache_of(given)
    row = paper_proposal(cache.trie, _distributions(given["q"]), given["proposed"])
    assert close(row, vector["expect"]["distribution"])


def _distributions(rows: Sequence[Sequence[float]]) -> list[Distribution]:
    return [Categorical(np.array(row)) for row in rows]
