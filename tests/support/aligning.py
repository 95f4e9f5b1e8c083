"""An aligner of the toy map, and random rows of its target."""

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from support.toy import DRAFT, TARGET, toy_map

PROMPT = [DRAFT.index("s"), DRAFT.index("o")]
ALIGNER = Aligner(full_trie(toy_map()), max_length=64)
Distributions = npt.NDArray[np.float64]


def distributions_of(count: int, seed: int = 0) -> Distributions:
    """Random rows of the toy target."""
    p = np.random.default_rng(seed).gamma(0.7, size=(count, len(TARGET)))
    rows: Distributions = p / p.sum(axis=1, keepdims=True)
    return rows
