"""What a test run makes once: the first worker that asks for it makes it, and the others read it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from omnidraft.errors import ClaimError
from omnidraft.runtime.disk.claim import claim

Make = Callable[[Path], object]  # fills a directory that does not exist yet
MadeOnce = Callable[[str, Make], Path]


def made_once_in(factory: pytest.TempPathFactory) -> MadeOnce:
    """A function that makes a directory once in a test run, by its name, and returns its path.

    Tests only read what is in it: other workers of pytest-xdist read it, too.
    """
    own = factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def made_once(name: str, make: Make) -> Path:
        place, whole = shared / "made" / name / name, shared / "made" / name / ".done"
        place.parent.mkdir(parents=True, exist_ok=True)
        handle = _claimed(place.parent)
        try:
            if not whole.exists():
                shutil.rmtree(place, ignore_errors=True)  # of a worker that failed
                make(place)
                whole.touch()
        finally:
            os.close(handle)
        return place

    return made_once


def _claimed(place: Path) -> int:
    """Wait until no other worker makes what belongs in a directory."""
    while True:
        try:
            return claim(place)
        except ClaimError:
            time.sleep(0.1)
