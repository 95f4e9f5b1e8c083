"""What spec/make_tables.py writes is what is committed, and the kinds of notices are those of their table."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import get_args

import pytest

from omnidraft.notice import NoticeKind
from support.places import ROOT

TABLES = runpy.run_path(str(ROOT / "spec/make_tables.py"))
FILES = dict(TABLES["files"]())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_generated_file_is_that_of_its_table(path: Path) -> None:
    assert path.read_text("utf-8") == FILES[path], "run `make tables`"


def test_the_kinds_of_notices_are_those_of_the_chapter() -> None:
    section = (ROOT / "spec/08-phones.md").read_text("utf-8").split("\n## Notices\n")[1].split("\n## ")[0]
    kinds = re.findall(r"^\| `(\w+)` \|", section, re.M)
    kotlin, swift = (
        (ROOT / room / f"Notice{ending}").read_text("utf-8")
        for room, ending in (TABLES["PLACES"]["kotlin"], TABLES["PLACES"]["swift"])
    )
    assert list(get_args(NoticeKind)) == kinds != []
    assert re.findall(r"^    (\w+),$", kotlin, re.M) == [kind.upper() for kind in kinds]
    assert re.findall(r"^    case (\w+)$", swift, re.M) == [TABLES["camel"](kind) for kind in kinds]


def test_the_version_in_the_title_of_a_chapter_is_that_of_its_header() -> None:
    chapters = [path.read_text("utf-8") for path in (ROOT / "spec").glob("*.md")]
    headed = [text for text in chapters if "| version, " in text]
    titles = [re.findall(r"\A# .* version (\d+)$", text, re.M) for text in headed]
    assert titles == [re.findall(r"^\| 8 \| 4 \| version, (\d+) \|$", text, re.M) for text in headed]
    assert len(titles) == 3 and all(titles)
