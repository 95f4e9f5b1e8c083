"""Inputs of the training step's graph, and its objectives (spec/14-train-step.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligned, Distributions, Numpy
from omnidraft.learning.positions.batch import Batch, Floats, collate
from omnidraft.runtime.bundle.train_step_entry import TERMS

Inputs = dict[str, npt.NDArray[np.generic]]
_FLOOR = 1e-8  # mass below which a distribution is all OTHER

# The factor of each term in the loss of each objective.
OBJECTIVES: dict[str, dict[str, float]] = {
    "trie-kl": {"trie": 1.0},
    "omnidraft": {"direct": 1.0, "ngram": 0.2},
}


@dataclass(frozen=True)
class StepBatch:
    """The responses of one call of the graph.

    Attributes:
        counts: number of positions in each term's sum; the loss of a step is the sum over terms of
            factor * sum / count.
    """

    inputs: Inputs
    counts: dict[str, float]


def step_batch(responses: Sequence[Aligned], factors: dict[str, float]) -> StepBatch:
    """Inputs of one call of the graph; positions of terms without a factor are left out."""
    batch = collate(responses)
    trie, direct = batch.trie, _on_intersection(batch)
    inside = batch.tokens.lengths[batch.labels.tokens] > 1
    ngram_rows, ngram_ids = batch.labels.rows[inside], batch.labels.ids[inside]
    if "trie" not in factors:
        trie = _chosen(trie, np.zeros(len(trie.rows), np.bool_))
    if "direct" not in factors:
        direct = _chosen(direct, np.zeros(len(direct.rows), np.bool_))
    if "ngram" not in factors:
        ngram_rows, ngram_ids = ngram_rows[:0], ngram_ids[:0]
    inputs = {
        "input_ids": batch.input_ids,
        "rows": batch.sequences * batch.input_ids.shape[1] + batch.positions,
        **_distributions("trie", trie),
        "trie.weights": trie.weights,
        **_distributions("direct", direct),
        "ngram.rows": ngram_rows,
        "ngram.ids": ngram_ids,
    }
    counts = {"trie": float(trie.weights.sum()), "direct": len(direct.rows), "ngram": len(ngram_rows)}
    return StepBatch(inputs, {name: float(count) for name, count in counts.items()})


def step_scales(parts: Sequence[StepBatch], factors: dict[str, float]) -> tuple[Floats, dict[str, float]]:
    """The scale of each term in every call of a step, factor / count, and the counts of the step.

    Returns:
        the scales in the order of `TERMS`; and the counts by term.
    """
    counts = {name: max(sum(part.counts[name] for part in parts), 1e-6) for name in factors}
    scales = [factors[name] / counts[name] if name in counts else 0.0 for name in TERMS]
    return np.array(scales, np.float32), counts


def factors_of(objective: str) -> dict[str, float]:
    """
    Raises:
        SettingError: the graph does not have the objective.
    """
    if objective not in OBJECTIVES:
        known = " or ".join(OBJECTIVES)
        raise SettingError(
            f'objective "{objective}" is not in the training step',
            f"use {known}, or train with torch",
            setting="objective",
        )
    return OBJECTIVES[objective]


def _on_intersection(batch: Batch[Numpy]) -> Distributions[Numpy]:
    """The distributions at tokens with a direct partner; mass outside the intersection is in OTHER."""
    distributions = _chosen(batch.direct, batch.tokens.direct)
    other = distributions.other + np.maximum(1.0 - distributions.weights, 0.0)
    total = distributions.probabilities.sum(axis=1) + other
    safe = np.maximum(total, _FLOOR)
    return replace(
        distributions,
        probabilities=(distributions.probabilities / safe[:, None]).astype(np.float32),
        other=np.where(total > _FLOOR, other / safe, 1.0).astype(np.float32),
    )


def _chosen(distributions: Distributions[Numpy], mask: npt.NDArray[np.bool_]) -> Distributions[Numpy]:
    return Distributions(
        distributions.rows[mask],
        distributions.ids[mask],
        distributions.probabilities[mask],
        distributions.other[mask],
        distributions.weights[mask],
    )


def _distributions(name: str, distributions: Distributions[Numpy]) -> Inputs:
    fields: Inputs = {
        "rows": distributions.rows,
        "ids": distributions.ids,
        "probabilities": distributions.probabilities,
        "other": distributions.other,
    }
    return {f"{name}.{field}": value for field, value in fields.items()}
