"""Inputs of the training step's graph (spec/14-train-step.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.positions.batch import collate

Inputs = dict[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class StepBatch:
    """The responses of one call of the graph.

    Attributes:
        weight: the sum of the weights of their distributions.
    """

    inputs: Inputs
    weight: float


def step_batch(responses: Sequence[Aligned]) -> StepBatch:
    """Inputs of one call of the graph."""
    batch = collate(responses)
    inputs = {
        "input_ids": batch.input_ids,
        "rows": batch.sequences * batch.input_ids.shape[1] + batch.positions,
        "trie.rows": batch.trie.rows,
        "trie.ids": batch.trie.ids,
        "trie.probabilities": batch.trie.probabilities,
        "trie.other": batch.trie.other,
        "trie.weights": batch.trie.weights,
    }
    return StepBatch(inputs, float(batch.trie.weights.sum()))


def step_scale(parts: Sequence[StepBatch]) -> float:
    """The scale of the loss in every call of a step: 1 / the sum of the weights of the whole step."""
    return 1.0 / max(sum(part.weight for part in parts), 1e-6)
