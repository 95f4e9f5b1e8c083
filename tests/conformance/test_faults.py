"""Every fault that a chapter of the specification names has a vector, or a reason here why it has none."""

from __future__ import annotations

import re

import pytest

from conformance.vectors import ROOT, counts, vectors_of

SPEC = ROOT.parent
# A chapter's own folders of vectors, by their first name.
FOLDERS = {
    "02": {"tokenizer"},
    "03": {"bundle", "map", "sampling"},
    "06": {"cache"},
    "09": {"session"},
    "10": {"signing"},
    "11": {"adapter"},
    "12": {"trace"},
    "15": {"sync"},
    "16": {"archive"},
    "17": {"grammar"},
}
NO_FILE = "a vector is bytes; this is about a path: tests of the runtime have it"
WRITING = "of writing: tests of the runtime have it"
LOADING = "an engine or the system refuses, and each runtime has its own engine and test"
WITHOUT_VECTOR: dict[str, dict[str, str]] = {
    "02": {"unreadable": NO_FILE},
    "03": {"run": LOADING, "memory": LOADING},
    "06": {"unreadable": NO_FILE},
    "08": {
        "unverifiable": "of a system that cannot check signatures",
        "memory": "of an app that passes in its free memory",
        "cancelled": "not an error",
    },
    "09": {"unreadable": NO_FILE},
    "11": {"unreadable": NO_FILE},
    "12": {"unreadable": NO_FILE, "in_use": WRITING, "unwritable": WRITING},
    "15": {
        "read_only": WRITING,
        "in_use": WRITING,
        "unwritable": WRITING,
        "unreadable": NO_FILE,
        "missing": "of a store: tests of sync have it",
        "unreachable": "of a store: tests of sync have it",
        "absent": "of going back, which reads no file from outside",
        "worse": "of publishing, which is for desktops: tests of sync have it",
        "too_few": "of publishing, which is for desktops: tests of sync have it",
        "no_fingerprint": "of a bundle that cannot share: tests of sync have it",
    },
    "16": {
        "unreadable": NO_FILE,
        "limits": "1,028 entries are 16 MB: tests of the runtime have it",
        "left_out": "the vectors of archive/open have it as a place",
        "unwritable": WRITING,
        "space": WRITING,
    },
    "17": {"unreadable": NO_FILE, "room": "of a session: tests of the runtime have it"},
}


def faults_of(text: str) -> set[str]:
    """Names in the column `fault` of all tables that have one."""
    names, header = set[str](), list[bool]()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")] if line.startswith("|") else []
        if not cells or not header:
            header = [cell == "fault" or cell.startswith("fault of ") for cell in cells]
            continue
        for cell, named in zip(cells, header, strict=False):
            names |= set(re.findall(r"`([a-z_0-9]+)`", cell)) if named else set()
    return names


def chapters() -> dict[str, set[str]]:
    """The faults of each chapter that names some, by the chapter's number."""
    found = {path.name[:2]: faults_of(path.read_text(encoding="utf-8")) for path in sorted(SPEC.glob("*.md"))}
    return {number: faults for number, faults in found.items() if faults}


def with_vectors(number: str) -> set[str]:
    """The faults that the vectors of a chapter expect."""
    first = FOLDERS.get(number, set())
    folders = [folder for folder in counts() if folder.split("/")[0] in first]
    expected = [vector["expect"] for folder in folders for vector in vectors_of(folder)]
    return {each["fault"] for each in expected if each.get("fault") is not None}


def test_the_tables_were_found() -> None:
    assert set(FOLDERS) <= set(chapters())
    assert len(chapters()["06"]) > 15


@pytest.mark.parametrize("number", sorted(chapters()))
def test_each_fault_has_a_vector_or_a_reason(number: str) -> None:
    faults, vectors, excused = chapters()[number], with_vectors(number), set(WITHOUT_VECTOR.get(number, {}))
    assert faults - vectors - excused == set(), "faults without a vector"
    assert excused - faults == set(), "reasons for faults that the chapter does not name"
    assert excused & vectors == set(), "reasons for faults that have a vector"


@pytest.mark.parametrize("number", sorted(chapters().keys() & FOLDERS.keys()))
def test_each_fault_of_a_vector_is_named_by_a_chapter(number: str) -> None:
    named = {fault for faults in chapters().values() for fault in faults}
    assert with_vectors(number) <= named
