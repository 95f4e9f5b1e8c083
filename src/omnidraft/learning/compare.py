"""Compare two adapters of a drafter on recorded text by the expected acceptance of their draft tokens.

With P the target's recorded distribution and Q the drafter's, a token drawn from Q is accepted with
probability sum min(P, Q) (method sections 4.2 and 5.2). Both adapters read the same positions, so the
differences are paired; a generation counts as one observation, because its positions are correlated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft import defaults
from omnidraft.learning.positions.alignment import Aligned, SparseDistributions
from omnidraft.learning.student_t import NORMAL_95, student_t
from omnidraft.runtime.decoding.model import SessionModel

Tensors = Mapping[str, npt.NDArray[np.float32]]
LEAST_GENERATIONS = defaults.SYNC_LEAST_GENERATIONS  # with fewer the confidence interval is infinite
_CHUNK = 64  # positions whose logits are in memory at once


@dataclass(frozen=True)
class AdapterComparison:
    """The result of comparing an offered adapter with the current one.

    Attributes:
        current: expected acceptance of a draft token with the current adapter, 0 to 1.
        offered: expected acceptance of a draft token with the offered adapter, 0 to 1.
        low: lower end of the 95 % interval of `offered - current`; -inf for too few generations.
        high: upper end of that interval; inf for too few generations.
    """

    generations: int
    positions: int
    current: float
    offered: float
    low: float
    high: float

    @property
    def is_better(self) -> bool:
        """Whether the offered adapter is significantly better."""
        return self.low > 0.0

    @property
    def is_enough(self) -> bool:
        """Whether there were enough generations for an interval."""
        return self.generations >= LEAST_GENERATIONS


def compare(
    model: SessionModel, responses: Sequence[Aligned], current: Tensors, offered: Tensors
) -> AdapterComparison:
    """Compare two adapters of a drafter.

    Args:
        model: the drafter; afterwards it has the offered adapter and an empty context.
        responses: recorded generations (`from_traces`), none longer than the model's context.
        current: tensors by the names of the graph's inputs; empty for the drafter without an adapter.
    """
    columns = []
    for tensors in (current, offered):
        model.rewind(0)
        model.use_adapter(tensors)
        columns.append([acceptances(model, each) for each in responses])
        model.rewind(0)
    pairs = [(float(a.sum()), float(b.sum()), len(a)) for a, b in zip(*columns, strict=True) if len(a)]
    if not pairs:
        return AdapterComparison(0, 0, 0.0, 0.0, -np.inf, np.inf)
    before, after, counts = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    positions = counts.sum()
    low, high = interval(after - before, counts)
    return AdapterComparison(
        len(pairs), int(positions), float(before.sum() / positions), float(after.sum() / positions), low, high
    )


def interval(differences: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % interval of the mean difference per position; generations are the observations.

    It is the interval of a ratio of sums, sum d / sum n, with residuals d - mean n (Cochran, Sampling
    Techniques, chapter 6) and Student's t.
    """
    groups = len(counts)
    if groups < LEAST_GENERATIONS:
        return -np.inf, np.inf
    mean = float(differences.sum() / counts.sum())
    residuals = differences - mean * counts
    error = float(np.sqrt((residuals**2).sum() * groups / (groups - 1)) / counts.sum())
    t = student_t(NORMAL_95, groups - 1)
    return mean - t * error, mean + t * error


def acceptances(model: SessionModel, response: Aligned) -> npt.NDArray[np.float64]:
    """Expected acceptance at each distribution of a response, times the weight of that distribution.

    Returns:
        shape [distributions of the response].
    """
    distributions, allowed = response.trie_distributions, response.vocab_map.draft_allowed
    inside = ~np.isin(distributions.rows, response.rows)
    accepted = np.zeros(len(distributions))
    first = response.prompt_length - 1  # the position whose logits are row 0
    start = 0
    while start < len(response.draft_ids):
        end = first + 1 if start <= first else min(start + _CHUNK, len(response.draft_ids))
        logits = model.score(response.draft_ids[start:end].tolist(), 1 if start <= first else None)
        row = max(start, first) - first
        here = np.flatnonzero((distributions.rows >= row) & (distributions.rows < row + len(logits)))
        if len(here):
            q = probabilities(logits, allowed)[distributions.rows[here] - row]
            accepted[here] = overlaps(q, distributions, here, inside[here])
        start = end
    model.rewind(0)
    return accepted


def probabilities(
    logits: npt.NDArray[np.floating], allowed: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Softmax of logits over the draft tokens that may be drafted, at temperature 1.

    Args:
        logits: shape [n, width]; columns beyond `allowed` are padding.
        allowed: draft tokens that may be drafted, shape [draft vocab].

    Returns:
        shape [n, width].
    """
    values = np.full(logits.shape, -np.inf)
    width = min(logits.shape[1], len(allowed))
    values[:, :width] = np.where(allowed[:width], logits[:, :width].astype(np.float64), -np.inf)
    values -= values.max(axis=1, keepdims=True)
    np.exp(values, out=values)
    result: npt.NDArray[np.float64] = values / values.sum(axis=1, keepdims=True)
    return result


def overlaps(
    q: npt.NDArray[np.float64],
    distributions: SparseDistributions,
    chosen: npt.NDArray[np.intp],
    inside: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """sum min(P, Q) of each chosen distribution, times its weight.

    Inside a spelling OTHER is the end of the spelling, which the drafter proposes by any token that continues
    no spelling, so OTHER counts as one outcome. Elsewhere OTHER is many tokens of which only the sum is
    known. It counts as 0 there, because a drafter with a flat distribution would gain by it.

    Args:
        q: the drafter's probabilities at each distribution, shape [n, draft vocab].
        chosen: indices of the distributions, shape [n].
        inside: which of them are inside a spelling, shape [n].

    Returns:
        shape [n].
    """
    ids = distributions.ids[chosen]
    listed = ids >= 0
    drawn = np.where(listed, np.take_along_axis(q, np.maximum(ids, 0), axis=1), 0.0)
    kept = np.minimum(drawn, distributions.probabilities[chosen]).sum(axis=1)
    rest = np.clip(1.0 - drawn.sum(axis=1), 0.0, 1.0)
    kept += np.where(inside, np.minimum(rest, distributions.other[chosen]), 0.0)
    weighted: npt.NDArray[np.float64] = kept * distributions.weights[chosen]
    return weighted
