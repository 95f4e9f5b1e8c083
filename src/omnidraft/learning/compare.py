"""Two adapters side by side on recorded text: whose drafts would be accepted more often, and how surely.

Nothing is generated. The drafter reads each recorded text once with either adapter, and at every place where
the target's distribution over draft tokens was recorded, sum min(P, Q) is the probability that its draft token would
have been accepted (method sections 4.2 and 5.2). Both read the same places, so the differences are paired;
places of one generation are alike, so a generation counts as one observation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligned, SparseDistributions
from omnidraft.runtime.decoding.model import SessionModel

Tensors = Mapping[str, npt.NDArray[np.float32]]
LEAST_GENERATIONS = 8  # below these no interval is worth its name
_CHUNK = 64  # positions whose logits are in memory at once
_Z = 1.959963984540054  # of the normal distribution, two-sided 95 %


@dataclass(frozen=True)
class Shadow:
    """How two adapters compare.

    Attributes:
        generations, positions: that both read.
        current, offered: expected acceptance of a draft token with either, 0 to 1.
        low, high: 95 % interval of `offered - current`; infinite where there are too few generations.
    """

    generations: int
    positions: int
    current: float
    offered: float
    low: float
    high: float

    @property
    def is_better(self) -> bool:
        """Whether the offered one surely is."""
        return self.low > 0.0

    @property
    def is_enough(self) -> bool:
        """Whether there was enough text to tell."""
        return self.generations >= LEAST_GENERATIONS


def shadow(model: SessionModel, responses: Sequence[Aligned], current: Tensors, offered: Tensors) -> Shadow:
    """Compare two adapters of a drafter.

    Args:
        model: the drafter; afterwards it has the offered adapter and holds nothing.
        responses: recorded generations (`from_traces`), none longer than the model's context.
        current, offered: tensors by the names of the graph's inputs; empty for the drafter as it is.
    """
    found = []
    for tensors in (current, offered):
        model.rewind(0)
        model.use_adapter(tensors)
        found.append([acceptances(model, each) for each in responses])
        model.rewind(0)
    pairs = [(float(a.sum()), float(b.sum()), len(a)) for a, b in zip(*found, strict=True) if len(a)]
    if not pairs:
        return Shadow(0, 0, 0.0, 0.0, -np.inf, np.inf)
    before, after, counts = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    whole = counts.sum()
    low, high = interval(after - before, counts)
    return Shadow(len(pairs), int(whole), float(before.sum() / whole), float(after.sum() / whole), low, high)


def interval(differences: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]) -> tuple[float, float]:
    """A 95 % interval of the mean difference a position, generations being the observations.

    That of a ratio of sums, sum d / sum n, whose residuals are d - mean n (Cochran, Sampling Techniques,
    chapter 6), with Student's t (Cornish and Fisher's expansion of it).
    """
    groups = len(counts)
    if groups < LEAST_GENERATIONS:
        return -np.inf, np.inf
    mean = float(differences.sum() / counts.sum())
    residuals = differences - mean * counts
    error = float(np.sqrt((residuals**2).sum() * groups / (groups - 1)) / counts.sum())
    t = _student(groups - 1)
    return mean - t * error, mean + t * error


def _student(freedom: int) -> float:
    """The two-sided 95 % quantile, within 0.0003 from 7 degrees of freedom on."""
    z = _Z
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return float(sum(term / freedom**power for power, term in enumerate(terms)))


def acceptances(model: SessionModel, response: Aligned) -> npt.NDArray[np.float64]:
    """Expected acceptance at each distribution of a response, times how likely the target is to be drafted for there.

    Args:
        model: the drafter, holding nothing.
    """
    distributions, allowed = response.trie_distributions, response.vocab_map.draft_allowed
    inside = ~np.isin(distributions.rows, response.tokens.rows)
    found = np.zeros(len(distributions))
    first = response.prompt_length - 1  # the position whose logits are row 0
    at = 0
    while at < len(response.draft_ids):
        end = first + 1 if at <= first else min(at + _CHUNK, len(response.draft_ids))
        logits = model.score(response.draft_ids[at:end].tolist(), 1 if at <= first else None)
        row = max(at, first) - first
        here = np.flatnonzero((distributions.rows >= row) & (distributions.rows < row + len(logits)))
        if len(here):
            q = probabilities(logits, allowed)[distributions.rows[here] - row]
            found[here] = overlaps(q, distributions, here, inside[here])
        at = end
    model.rewind(0)
    return found


def probabilities(
    logits: npt.NDArray[np.floating], allowed: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """The distributions of rows of logits over what may be drafted, at temperature 1; shapes [n, draft vocab]."""
    values = np.full(logits.shape, -np.inf)
    width = min(logits.shape[1], len(allowed))
    values[:, :width] = np.where(allowed[:width], logits[:, :width].astype(np.float64), -np.inf)
    values -= values.max(axis=1, keepdims=True)
    np.exp(values, out=values)
    found: npt.NDArray[np.float64] = values / values.sum(axis=1, keepdims=True)
    return found


def overlaps(
    q: npt.NDArray[np.float64],
    distributions: SparseDistributions,
    chosen: npt.NDArray[np.intp],
    inside: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """sum min(P, Q) of some distributions.

    Inside a spelling OTHER is its end, which the drafter proposes with all that goes on in no spelling, so it
    counts as one outcome. Elsewhere it is many tokens of which only the sum is known, and counts for nothing:
    a drafter that is sure of nothing would gain by it.

    Args:
        q: of each distribution, shape [n, draft vocab]. chosen: the distributions, shape [n].
        inside: which of them are inside a spelling, shape [n].
    """
    ids = distributions.ids[chosen]
    listed = ids >= 0
    drawn = np.where(listed, np.take_along_axis(q, np.maximum(ids, 0), axis=1), 0.0)
    kept = np.minimum(drawn, distributions.probabilities[chosen]).sum(axis=1)
    rest = np.clip(1.0 - drawn.sum(axis=1), 0.0, 1.0)
    kept += np.where(inside, np.minimum(rest, distributions.other[chosen]), 0.0)
    found: npt.NDArray[np.float64] = kept * distributions.weights[chosen]
    return found
