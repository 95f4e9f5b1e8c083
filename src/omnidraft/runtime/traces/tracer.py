"""From a round to what a trace keeps of it: the largest probabilities of the target.

It reads the values of the loop and changes none of them, so a recorded generation emits the same tokens.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.decoding.proposer import Outcome
from omnidraft.runtime.decoding.sampling import TargetProbs
from omnidraft.runtime.traces.trace import FLOOR, TOP, Masses, TracedRound, TracedToken
from omnidraft.runtime.vocab.vocab_map import VocabMap

Weights = npt.NDArray[np.float32]
_ROUNDING = 2e-6  # error of a sum of 150,000 float32


class Tracer:
    """Makes a `TracedRound` from a round."""

    def __init__(self, vocab_map: VocabMap) -> None:
        offsets = vocab_map.first_offsets
        self._leaves = vocab_map.leaves.astype(np.intp)  # by spelling, so children of the root are runs
        self._firsts = np.flatnonzero(np.diff(offsets)).astype(np.int32)
        self._starts = offsets[self._firsts]

    def __call__(self, outcome: Outcome, probs: TargetProbs) -> TracedRound | None:
        """A round as a trace keeps it; None where a row has no distribution."""
        tokens, accepted = [], outcome.verdict.accepted
        for i, token in enumerate(outcome.emitted):
            row = self.row(probs.logits[i])
            if row is None:
                return None
            roots, unspelled = self.roots(row)
            tokens.append(
                TracedToken(
                    token, row.surprisal(token), i < accepted, row.largest(TOP), roots, unspelled
                )
            )  # fmt: skip
        return TracedRound(tuple(tokens))

    def row(self, logits: Logits) -> "Row | None":
        """The distribution of a row of logits, shape [vocab]; None where the logits have no distribution."""
        shift = float(logits.max())
        weights = np.subtract(logits, shift, dtype=np.float32)
        np.exp(weights, out=weights)
        total = float(weights.sum())
        return Row(logits, shift, weights, total) if np.isfinite(total) and total > 0.0 else None

    def roots(self, row: "Row") -> tuple[Masses, float]:
        """Masses below the children of the root of the whole trie, and the mass without a spelling."""
        spelled = row.weights.take(self._leaves)
        sums = np.add.reduceat(spelled, self._starts) if len(spelled) else np.empty(0, np.float32)
        whole = float(sums.sum(dtype=np.float64)) / row.total
        # A sum of float32 differs from 1 by about 1e-6 that belongs to no token.
        unspelled = 1.0 - whole if whole < 1.0 - _ROUNDING else 0.0
        return largest(sums, row.total, whole, TOP, self._firsts), unspelled


@dataclass(frozen=True)
class Row:
    """The distribution of a row at temperature 1.

    Attributes:
        logits: shape [vocab].
        weights: exp(logits - shift), shape [vocab].
    """

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
        weights: in proportion to the probabilities, shape [n].
        total: the weight of probability 1.
        ids: the ids of the probabilities, ascending; their positions when None.
    """
    kept = np.flatnonzero(weights >= FLOOR * total)
    if len(kept) > top:
        values = weights[kept]
        kept = kept[values >= np.partition(values, len(kept) - top)[len(kept) - top]]
        # Ties can leave more than `top`.
        kept = np.sort(kept[np.argsort(-weights[kept], kind="stable")[:top]])
    probabilities = np.clip(weights[kept] / total, FLOOR, 1.0)
    rest = min(1.0, max(0.0, whole - float(probabilities.sum(dtype=np.float64))))
    return Masses(kept if ids is None else ids[kept], probabilities.astype(np.float16), rest)
