"""Runner of `verify`: translate, judge, and what the two contexts take back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformance.choosing import Given
from conformance.vectors import Vector, cache_of, close
from omnidraft.runtime.decoding.block_verifier import verify_block
from omnidraft.runtime.decoding.drafter import Draft, Drafter
from omnidraft.runtime.decoding.proposer import DraftModel, Method
from omnidraft.runtime.decoding.sampling import Categorical, Distribution
from omnidraft.runtime.decoding.translator import Proposal, translate, translate_longest
from omnidraft.runtime.decoding.verifier import (
    Verdict,
    paper_proposal,
    verify_match,
    verify_paper,
    verify_trie,
)
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from support.toy import ContextModel

METHODS = {
    "token": Method(translate, verify_trie),
    "block": Method(translate, verify_block),
    "match": Method(translate_longest, verify_match),
    "paper": Method(translate_longest, verify_paper, expands=False),
}


class Listener(Drafter):
    """A drafter that only remembers which context it was given."""

    heard: list[int]

    def propose(self, context: Sequence[int], *others: Any) -> Draft:
        self.heard = list(context)
        return Draft()


def run_verify(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    if "proposed" in given:
        _run_paper_distribution(vector)
        return
    random = Given(given["uniforms"])
    cache, listener = cache_of(given), Listener(ContextModel(0, 2))
    proposer = DraftModel(METHODS[given["rule"]], listener, cache, [], 1.0)
    draft = Draft(given["draft"], _distributions(given["q"]))
    proposal = proposer.translate(draft, 8)
    assert proposal.tokens == given["proposal"]
    verdict = proposer.verify(draft, proposal, _distributions(given["p"]).__getitem__, random)
    random.finish()
    found = (verdict.accepted, verdict.token, verdict.is_bonus, verdict.tested, verdict.passed)
    assert found == tuple(expect[k] for k in ("accepted", "token", "is_bonus", "tested", "passed"))
    assert len(proposal.tokens) - verdict.accepted == expect["target_rewind"]
    kept = given["draft"][: len(given["draft"]) - expect["draft_rewind"]]
    assert _context_after(proposer, listener, draft, proposal, verdict) == kept + expect["draft_append"]


def _context_after(
    proposer: DraftModel, listener: Listener, draft: Draft, proposal: Proposal, verdict: Verdict
) -> list[int]:
    """What the drafter is asked to go on from in the next round."""
    emitted = [*proposal.tokens[: verdict.accepted], verdict.token]
    proposer.learn(draft, proposal, verdict, emitted)
    proposer.propose(emitted, 1, Given([]))
    return listener.heard


def _run_paper_distribution(vector: Vector) -> None:
    given = vector["input"]
    cache: NgramCache = cache_of(given)
    found = paper_proposal(cache.trie, _distributions(given["q"]), given["proposed"])
    assert close(found, vector["expect"]["distribution"])


def _distributions(rows: Sequence[Sequence[float]]) -> list[Distribution]:
    return [Categorical(np.array(row)) for row in rows]
