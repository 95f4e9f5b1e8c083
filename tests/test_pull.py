"""Pulling: what nothing points to any more goes, and what is in use and before it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.runtime.installed import POINTER, read_installed
from sync_world import folder_store, publish_number, pull_into


def test_a_directory_holds_what_it_points_to_and_nothing_else(tmp_path: Path) -> None:
    store, into = folder_store(tmp_path / "store"), tmp_path / "dir"
    for number in (1, 2, 3, 4):
        publish_number(store, number)
        assert pull_into(store, into).outcome == "switched"
        state = read_installed(into)
        assert state is not None
        assert {file.name for file in into.iterdir()} == {POINTER, *state.files}
        assert len(state.files) == min(number, 2) + 1  # the adapter in use, the one before it, and n-grams
