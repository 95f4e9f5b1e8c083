"""Chapters of the specification: their levels, their place in the reading order, and their links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.places import ROOT

SPEC = ROOT / "spec"
CHAPTERS = sorted(SPEC.glob("[0-9][0-9]-*.md"))
LEVELS = ("core", "files", "learning", "publishing")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def named(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", CHAPTERS, ids=named)
def test_a_chapter_says_its_level_and_what_to_read_before(path: Path) -> None:
    title, blank, level = path.read_text(encoding="utf-8").split("\n")[:3]
    assert title.startswith("# ")
    assert not blank
    assert level.startswith("Level: ")
    assert level.removeprefix("Level: ").split()[0].rstrip(".,;") in LEVELS
    assert "Read before: " in " ".join(path.read_text(encoding="utf-8").split("\n")[2:6])


@pytest.mark.parametrize("path", CHAPTERS, ids=named)
def test_the_reading_order_lists_each_chapter_with_its_level(path: Path) -> None:
    rows = (SPEC / "README.md").read_text(encoding="utf-8").splitlines()
    row = next((row for row in rows if row.startswith(f"| [{path.name}]({path.name}) |")), None)
    assert row is not None, "README.md does not list it"
    level = path.read_text(encoding="utf-8").split("\n")[2].removeprefix("Level: ").split()[0].rstrip(".,;")
    assert row.split("|")[2].split(",")[0].strip() == level


@pytest.mark.parametrize("path", [*CHAPTERS, SPEC / "README.md", SPEC / "glossary.md"], ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    links = LINK.findall(path.read_text(encoding="utf-8"))
    assert not [link for link in links if not link.startswith("http") and not (path.parent / link).exists()]
