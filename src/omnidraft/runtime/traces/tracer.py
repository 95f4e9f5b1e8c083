"""From a round to what a trace keeps of it: the largest masses of the target's distributions, and how all was judged.

Reads what the loop has at hand and changes none of it, so that a recorded generation says the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.drafter import Draft
from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.decoding.proposer import Proposer, written
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.decoding.verifier import Rows, Verdict
from omnidraft.runtime.traces.trace import FLOOR, TOP, Masses, TracedRound, TracedToken
from omnidraft.runtime.vocab.vocab_map import VocabMap

Weights = npt.NDArray[np.float32]
_ROUNDING = 2e-6  # what sums of 150,000 float32 are off by


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
        """What is kept of a round, its position still 0; None in a pause, or where a row is no distribution."""
        if not self._recording():
            return None
        verdict, drafted = (
            found.verdict,
            bool(found.draft.distributions),
        )  # without distributions the context was copied from
        said = [*found.proposal.tokens[: verdict.accepted], verdict.token]
        pieces = written(found.draft, found.proposal if drafted else Proposal(), said, self._map)
        tokens = []
        for i, token in enumerate(found.emitted):
            row = self.row(found.logits[i])
            if row is None:
                return None
            distribution, (roots, unspelled) = row.largest(self._top), self.roots(row)
            tokens.append(
                TracedToken(
                    token, row.surprisal(token), i < verdict.accepted, pieces[i].inside,
                    tuple(pieces[i].draft_ids), distribution, roots, unspelled,
                )
            )  # fmt: skip
        judged = tuple(proposer.judged(found.draft, found.proposal, verdict, found.rows))
        tested, passed = (verdict.tested, verdict.passed) if drafted else (0, 0)
        draft = tuple(found.draft.tokens) if drafted else ()
        return TracedRound(0, draft, tested, passed, judged, tuple(tokens))

    def row(self, logits: Logits) -> "Row | None":
        """The distribution of a row of logits, shape [vocab]; None where it is none."""
        shift = float(logits.max())
        weights = np.subtract(logits, shift, dtype=np.float32)
        np.exp(weights, out=weights)
        total = float(weights.sum())
        return Row(logits, shift, weights, total) if np.isfinite(total) and total > 0.0 else None

    def roots(self, row: "Row") -> tuple[Masses, float]:
        """Masses below the children of the root of the whole trie, and what no spelling has."""
        spelled = row.weights.take(self._leaves)
        sums = np.add.reduceat(spelled, self._starts) if len(spelled) else np.empty(0, np.float32)
        whole = float(sums.sum(dtype=np.float64)) / row.total
        # Summing float32 leaves some 1e-6 that no token has.
        unspelled = 1.0 - whole if whole < 1.0 - _ROUNDING else 0.0
        return largest(sums, row.total, whole, self._top, self._firsts), unspelled


@dataclass(frozen=True)
class Row:
    """The distribution of a row at temperature 1: logits, their largest, exp of the differences, the sum of these."""

    logits: Logits
    shift: float
    weights: Weights
    total: float

    def surprisal(self, token: int) -> float:
        """-ln of a token's probability, in nats."""
        return max(0.0, self.shift + float(np.log(self.total)) - float(self.logits[token]))

    def largest(self, top: int) -> Masses:
        """The `top` most probable tokens."""
        return largest(self.weights, self.total, 1.0, top)


def largest(
    weights: Weights, total: float, whole: float, top: int, ids: npt.NDArray[np.integer] | None = None
) -> Masses:
    """The largest of some probabilities (ties: lowest first), and the sum of the others.

    Args:
        weights: in proportion to them, shape [n]. total: the weight of probability 1.
        whole: the sum of all probabilities. top: how many are kept at most.
        ids: what they are of, ascending; their places when None.
    """
    kept = np.flatnonzero(weights >= FLOOR * total)
    if len(kept) > top:
        found = weights[kept]
        kept = kept[found >= np.partition(found, len(kept) - top)[len(kept) - top]]
        # Ties may be too many.
        kept = np.sort(kept[np.argsort(-weights[kept], kind="stable")[:top]])
    probabilities = np.clip(weights[kept] / total, FLOOR, 1.0)
    rest = min(1.0, max(0.0, whole - float(probabilities.sum(dtype=np.float64))))
    return Masses(kept if ids is None else ids[kept], probabilities.astype(np.float16), rest)
