"""What a test run makes once: however many ask, one makes it, and what failed is made again."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from support.made_once import made_once_in


def test_of_many_that_ask_at_once_one_makes_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    made_once = made_once_in(tmp_path_factory)
    made, found, ready = list[Path](), list[str](), threading.Barrier(4)

    def make(place: Path) -> None:
        made.append(place)
        place.mkdir()
        (place / "file").write_text("whole")

    def ask() -> None:
        ready.wait()
        found.append((made_once("asked-at-once", make) / "file").read_text())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and found == ["whole"] * 4


def test_what_failed_is_made_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    made_once = made_once_in(tmp_path_factory)

    def fail(place: Path) -> None:
        place.mkdir()
        (place / "half").touch()
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        made_once("failed-first", fail)
    place = made_once("failed-first", Path.mkdir)
    assert list(place.iterdir()) == []
    assert made_once("failed-first", fail) == place
