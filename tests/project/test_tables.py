"""What spec/make_tables.py writes is what is committed."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from support.places import ROOT

FILES = dict(runpy.run_path(str(ROOT / "spec/make_tables.py"))["files"]())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_generated_file_is_that_of_its_table(path: Path) -> None:
    assert path.read_text("utf-8") == FILES[path], "run `make tables`"
