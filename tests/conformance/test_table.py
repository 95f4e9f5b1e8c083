"""docs/conformance.md: its folders and counts are those of the manifest; what did not run is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.vectors import ROOT
from scripts.phones import conformance
from scripts.phones.results import Ran

LEVELS: dict[str, dict[str, int]] = json.loads((ROOT / "manifest.json").read_text(encoding="utf-8"))["levels"]
TEXT = conformance.TABLE.read_text(encoding="utf-8")


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of a table, without its first two lines."""
    lines = text[text.index(heading) :].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    table = [line for line in lines[first : first + 100] if line.startswith("|")]
    end = next((i for i, line in enumerate(lines[first:]) if not line.startswith("|")), len(table))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[:end]][2:]


def test_the_table_has_the_folders_and_counts_of_the_manifest() -> None:
    *folders, together = rows(TEXT, "# Conformance")
    counted = [[level, name, str(count)] for level, each in LEVELS.items() for name, count in each.items()]
    assert [row[:3] for row in folders] == counted, "run make conformance"
    assert together[2] == str(sum(int(row[2]) for row in folders))
    for language in range(3, 6):
        assert int(together[language]) == sum(
            int(row[language]) for row in folders if row[language].isdigit()
        )


def test_each_cell_is_the_whole_folder_or_says_why_not() -> None:
    for level, folder, count, *cells in rows(TEXT, "# Conformance")[:-1]:
        for language, cell in zip(conformance.LANGUAGES, cells, strict=True):
            other = "not run" if level in conformance.LEVELS[language] else "not claimed"
            assert cell in (count, other), (language, folder)
    for bundle, outputs, _, _, *equal in rows(TEXT, "## Outputs"):
        assert set(equal) <= {outputs, "not run"}, bundle
    for kind, *ways in rows(TEXT, "## Files"):
        for way, cell in zip(conformance.ALL_WAYS, ways, strict=True):
            assert cell in (("same", "not run") if way in conformance.KINDS[kind] else ("-",)), (kind, way)


def test_what_did_not_run_is_shown(tmp_path: Path) -> None:
    levels = {"core": {"utf8": 3}, "publishing": {"sync/pull": 2}}
    place = tmp_path / "expected/a"
    place.mkdir(parents=True)
    (place / "ids.json").write_text(json.dumps({"prompts": ["x", "y"], "runs": [{"ids": [[1], [2, 3]]}]}))
    results: dict[str, Any] = {
        "python": {"vectors": {"utf8": [3, 3], "sync/pull": [2, 2]}},
        "kotlin": {"vectors": {"utf8": [2, 3]}, "ids": {"a": [1, 2]}},
        "exchange": {"session": ["python to kotlin"], "push": ["kotlin to python"]},
    }
    text = conformance.render(levels, results, tmp_path / "expected")
    assert rows(text, "# Conformance") == [
        ["core", "utf8", "3", "3", "**2 of 3**", "not run"],
        ["publishing", "sync/pull", "2", "2", "not claimed", "not claimed"],
        ["together", "2 folders", "5", "5", "2", "0"],
    ]
    assert rows(text, "## Outputs") == [["a", "2", "3", "the reference", "**1 of 2**", "not run"]]
    session, *_, push, release = rows(text, "## Files")
    assert session == ["session", "same", *["not run"] * 5]
    assert push == ["push", "-", "-", "same", "-", "not run", "-"]
    assert release == ["release", "not run", "not run", "-", "-", "-", "-"]


def test_a_table_that_is_not_complete_is_written_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(conformance, "TABLE", tmp_path / "conformance.md")
    (tmp_path / "python.json").write_text(json.dumps({"vectors": {"utf8": [2, 2]}}))
    (tmp_path / "manifest").write_text(json.dumps({"levels": {"core": {"utf8": 2}}}))
    assert conformance.main(tmp_path / "manifest", tmp_path, tmp_path) == 1
    assert "| core | utf8 | 2 | 2 | not run | not run |" in capsys.readouterr().out
    assert "| core | utf8 | 2 | 2 | not run | not run |" in conformance.TABLE.read_text()


def test_the_lines_of_a_run_are_added_for_a_bundle_and_not_for_a_folder(tmp_path: Path) -> None:
    ran = Ran.read("vectors utf8 2/3\nvectors utf8 3/3\nids a 29/30\nids a 30/30\nids b 1/1\nids b x/1\n")
    assert ran.vectors == {"utf8": (3, 3)}
    assert ran.ids == {"a": (59, 60), "b": (1, 1)}
    ran.write(tmp_path / "new/kotlin.json")
    assert json.loads((tmp_path / "new/kotlin.json").read_text()) == {
        "ids": {"a": [59, 60], "b": [1, 1]},
        "vectors": {"utf8": [3, 3]},
    }
