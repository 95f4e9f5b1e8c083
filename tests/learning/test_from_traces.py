"""From recorded generations to training positions; `learner/trace` of the vectors has what they become."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.learning.positions.from_traces import TraceAligner
from omnidraft.runtime.traces.trace import Start, Traced
from support.toy import DRAFT, toy_map
from support.trace_files import random_round

TOYS = TraceAligner(Aligner(full_trie(toy_map()), max_length=400), (DRAFT.index("#"),))


def test_another_target_is_refused() -> None:
    traced = Traced(Start(None, None, "trie", False, 0, (0, 3, 1)), (random_round(np.random.default_rng(0)),))
    other = replace(traced, start=replace(traced.start, target_adapter="ab" * 32))
    with pytest.raises(
        SettingError, match="is of the target with adapter abababababab and not with no adapter"
    ):
        TOYS.align(other)
    with pytest.raises(SettingError, match="with no adapter and not with adapter abababababab"):
        replace(TOYS, target_adapter="ab" * 32).align(traced)
    assert replace(TOYS, target_adapter="ab" * 32).align(other) is not None
