"""An aligner of the toy map, random rows of its target, and rows as values for the aligner."""

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.learning.positions.target_rows import TargetRows
from support.toy import DRAFT, TARGET, toy_map

PROMPT = [DRAFT.index("s"), DRAFT.index("o")]
ALIGNER = Aligner(full_trie(toy_map()), max_length=64)
Distributions = npt.NDArray[np.float64]


def distributions_of(count: int, seed: int = 0) -> Distributions:
    """Random rows of the toy target."""
    p = np.random.default_rng(seed).gamma(0.7, size=(count, len(TARGET)))
    rows: Distributions = p / p.sum(axis=1, keepdims=True)
    return rows


def dense_rows(probabilities: Distributions) -> TargetRows:
    """Rows of whole distributions, shape [n, target vocab]."""
    ids = np.broadcast_to(np.arange(probabilities.shape[1], dtype=np.int32), probabilities.shape)
    return TargetRows(ids, probabilities, np.zeros(len(probabilities)))


def top_rows(probabilities: Distributions, tokens: list[int], count: int) -> TargetRows:
    """The `count` most likely ids of each row, one of them the emitted token."""
    ranks = probabilities.copy()
    ranks[np.arange(len(ranks)), tokens] = np.inf
    ids = np.argsort(-ranks, axis=1)[:, :count].astype(np.int32)
    kept = np.take_along_axis(probabilities, ids, axis=1)
    return TargetRows(ids, kept, np.maximum(1.0 - kept.sum(axis=1), 0.0))
