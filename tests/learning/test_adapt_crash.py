"""Kill -9 while a drafter adapts: no file is half written, and the result is the same as without kills.

OMNIDRAFT_KILLS sets how many times (`make crash` takes 50), else 4.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.adapt_kills import assert_kills_change_nothing

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills by POSIX signals")


def test_killed_at_any_moment_going_on_comes_to_the_same(learnable: Path, tmp_path: Path) -> None:
    assert_kills_change_nothing(learnable, tmp_path, usual=4)
