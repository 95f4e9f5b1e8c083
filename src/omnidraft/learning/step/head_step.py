"""Inputs of the training graph of the adaptive head, and its vector as a head (spec/14-train-step.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.positions.head_example import head_example
from omnidraft.learning.step.step_batch import Inputs
from omnidraft.runtime.bundle.head import Head, HeadShape
from omnidraft.runtime.bundle.train_step_entry import StepLayout
from omnidraft.runtime.models.adapter import Floats


def head_batch(responses: Sequence[Aligned]) -> Inputs:
    """Inputs of the graph, padded to the longest response.

    Args:
        responses: at least one draw in total.
    """
    examples = [head_example(response) for response in responses]
    known = [np.ones(len(e.positions), np.bool_) for e in examples]
    return {
        "input_ids": _stacked([e.draft_ids for e in examples], 0).astype(np.int64),
        "positions": _stacked([e.positions for e in examples], 0).astype(np.int64),
        "known": _stacked(known, False),
        "said": _stacked([e.next_ids for e in examples], -1).astype(np.int64),
        "longer": _stacked([e.longer for e in examples], -1).astype(np.int64),
    }


def head_of(vector: Floats, layout: StepLayout, shape: HeadShape) -> Head:
    """The head in a vector."""
    sizes = shape.sizes()
    return Head({name: vector[start:end].reshape(sizes[name]) for name, (start, end), _ in layout.spans()})


def head_vector(head: Head | None, layout: StepLayout) -> Floats:
    """The vector of a head; zeros where there is no head, which means undecided and not "never stop"."""
    if head is None:
        return np.zeros(layout.size, np.float32)
    return np.concatenate([head.tensors[name].reshape(-1) for name in layout.tensors]).astype(np.float32)


def _stacked(arrays: Sequence[npt.NDArray[Any]], fill: float) -> npt.NDArray[Any]:
    """Arrays with the same number of axes as one array, each padded to the largest sizes, at least 1."""
    sizes = np.maximum(np.max([array.shape for array in arrays], axis=0), 1)
    stacked = np.full((len(arrays), *sizes), fill, arrays[0].dtype)
    for i, array in enumerate(arrays):
        stacked[i][tuple(slice(size) for size in array.shape)] = array
    return stacked
