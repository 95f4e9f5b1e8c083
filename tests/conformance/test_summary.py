"""`make conformance` fails, and says why, where a language lacks a vector, an output or a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.phones import conformance

LEVELS = {"core": {"utf8": 3}, "publishing": {"sync/pull": 2}}
ALL = {kind: list(ways) for kind, ways in conformance.KINDS.items()}
PORT = {"vectors": {"utf8": [3, 3]}, "ids": {"a": [2, 2]}}
WHOLE: dict[str, Any] = {
    "python": {"vectors": {"utf8": [3, 3], "sync/pull": [2, 2]}},
    "kotlin": PORT,
    "swift": PORT,
    "exchange": ALL,
}


def run(place: Path, results: dict[str, Any]) -> int:
    expected = place / "expected/a"
    expected.mkdir(parents=True)
    (expected / "ids.json").write_text(json.dumps({"prompts": ["x", "y"], "runs": [{"ids": [[1], [2, 3]]}]}))
    (place / "manifest").write_text(json.dumps({"levels": LEVELS}))
    (place / "results").mkdir()
    for name, content in results.items():
        (place / f"results/{name}.json").write_text(json.dumps(content))
    return conformance.main(place / "manifest", place / "results", place / "expected")


def test_a_whole_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, WHOLE) == 0
    said = capsys.readouterr().out
    assert "| core | 1 | 3 | 3 | 3 | 3 |\n| publishing | 1 | 2 | 2 | 0 | 0 |" in said
    assert "| a | 2 | 2 | 2 |" in said
    assert "| push | kotlin to python, swift to python |" in said


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("python", {"vectors": {"utf8": [3, 3]}}, "python, sync/pull"),
        ("kotlin", {**PORT, "vectors": {"utf8": [2, 3]}}, "kotlin, utf8"),
        ("swift", {**PORT, "ids": {"a": [1, 2]}}, "swift, bundle a"),
        ("exchange", {**ALL, "cache": []}, "cache, python to kotlin"),
    ],
)
def test_what_lacks_is_named(
    name: str, content: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, {**WHOLE, name: content}) == 1
    assert f"not whole: {said}\n" in capsys.readouterr().out
