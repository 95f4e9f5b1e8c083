"""From a round to what a trace keeps of it: the largest masses of the target's laws, and how all was judged.

Reads what the loop has at hand and changes none of it, so that a recorded generation says the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.drafter import Draft
from omnidraft.runtime.model import Logits
from omnidraft.runtime.proposer import Proposer, written
from omnidraft.runtime.trace import FLOOR, TOP, Masses, TracedRound, TracedToken
from omnidraft.runtime.translator import Proposal
from omnidraft.runtime.verifier import Rows, Verdict
from omnidraft.runtime.vocab_map import VocabMap

Weights = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Outcome:
    """A judged round, before anything was learned from it; logits: [n + 1, vocab]."""

    draft: Draft
    proposal: Proposal
    verdict: Verdict
    rows: Rows
    logits: Logits
    emitted: Sequence[int]


class Tracer:
    """Makes a `TracedRound` of a round while recording is on."""

    def __init__(self, vocab_map: VocabMap, recording: Callable[[], bool], top: int = TOP) -> None:
        self._map, self._recording, self._top = vocab_map, recording, top
        offsets = vocab_map.first_offsets
        self._leaves = vocab_map.leaves.astype(np.intp)  # by spelling, so children of the root are runs
        self._firsts = np.flatnonzero(np.diff(offsets)).astype(np.int32)
        self._starts = offsets[self._firsts]

    def __call__(self, proposer: Proposer, found: Outcome) -> TracedRound | None:
        """What is kept of a round, its position still 0; None in a pause, or where a row is no law."""
        if not self._recording():
            return None
        verdict, drafted = found.verdict, bool(found.draft.laws)  # without laws the context was copied from
        said = [*found.proposal.tokens[: verdict.accepted], verdict.token]
        pieces = written(found.draft, found.proposal if drafted else Proposal(), said, self._map)
        tokens = []
        for i, token in enumerate(found.emitted):
            row = self.row(found.logits[i])
            if row is None:
                return None
            weights, surprisals = row
            law, (roots, unspelled) = self.masses(weights), self.roots(weights)
            tokens.append(
                TracedToken(
                    token, float(surprisals[token]), i < verdict.accepted, pieces[i].inside,
                    tuple(pieces[i].draft_ids), law, roots, unspelled,
                )
            )  # fmt: skip
        judged = tuple(proposer.judged(found.draft, found.proposal, verdict, found.rows))
        tested, passed = (verdict.tested, verdict.passed) if drafted else (0, 0)
        draft = tuple(found.draft.tokens) if drafted else ()
        return TracedRound(0, draft, tested, passed, judged, tuple(tokens))

    def row(self, logits: Logits) -> tuple[Weights, Weights] | None:
        """Probabilities at temperature 1 and -ln of them, shapes [vocab]; None where they are none."""
        surprisals = (logits.max() - logits).astype(np.float32)
        weights = np.exp(-surprisals)
        total = float(weights.sum(dtype=np.float64))
        if not np.isfinite(total) or total <= 0.0:
            return None
        weights *= np.float32(1.0 / total)
        surprisals += np.float32(np.log(total))
        return weights, surprisals

    def masses(self, weights: npt.NDArray[np.floating], ids: npt.NDArray[np.integer] | None = None) -> Masses:
        """The largest of some probabilities (ties: lowest first), and the sum of the others.

        Args:
            weights: shape [n], summing to 1 at most. ids: what they are of; their places when None.
        """
        kept = np.flatnonzero(weights >= FLOOR)
        if len(kept) > self._top:
            # By falling probability, then by place; of a law at most 2^14 places reach the floor.
            kept = np.sort(kept[np.argsort(-weights[kept], kind="stable")[: self._top]])
        found = weights[kept]
        rest = max(0.0, float(weights.sum(dtype=np.float64)) - float(found.sum(dtype=np.float64)))
        return Masses(kept if ids is None else ids[kept], found.astype(np.float16), min(rest, 1.0))

    def roots(self, weights: Weights) -> tuple[Masses, float]:
        """Masses below the children of the root of the whole trie, and what no spelling has."""
        spelled = weights.take(self._leaves)
        sums = np.add.reduceat(spelled, self._starts, dtype=np.float64) if len(spelled) else np.empty(0)
        unspelled = 1.0 - float(sums.sum())
        # Summing float32 leaves some 1e-7 that no token has.
        unspelled = unspelled if unspelled > 1e-6 else 0.0
        return self.masses(sums, self._firsts), unspelled
