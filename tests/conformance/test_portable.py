"""The list of the files that every language mirrors, compared with the files of the Python runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.vectors import CLAIMED, ROOT


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names occur once; a second one would hide the first."""
    assert len(dict(pairs)) == len(pairs), [name for name, _ in pairs]
    return dict(pairs)


def pascal(stem: str) -> str:
    """The name of a file in Kotlin and Swift: `draft_length` is `DraftLength`."""
    return "".join(word.capitalize() for word in stem.split("_"))


LIST = json.loads((ROOT.parent / "portable.json").read_text(encoding="utf-8"), object_pairs_hook=once)
PORTABLE: dict[str, dict[str, str]] = LIST["portable"]
NOT_MIRRORED: dict[str, dict[str, str]] = LIST["not_mirrored"]
FURTHER: dict[str, dict[str, dict[str, str]]] = LIST["further"]
SOURCE = ROOT.parents[1] / "src/omnidraft"
KOTLIN = ROOT.parents[1] / "mobile/android/omnidraft/src/main/kotlin/io/omnidraft"
SWIFT = ROOT.parents[1] / "mobile/ios/Sources/OmniDraft"
ROOMS = {
    "decoding",
    "vocab",
    "chat",
    "device",
    "parts",
    "bundle",
    "archive",
    "models",
    "session",
    "traces",
    "learning",
}


def folder_of(room: str) -> Path:
    """The folder of the Python runtime that a folder of the list names."""
    return SOURCE / room if room.startswith("learning") else SOURCE / "runtime" / room


@pytest.mark.parametrize("room", sorted(PORTABLE))
def test_each_file_is_mirrored_or_has_a_reason(room: str) -> None:
    files = {file.stem for file in folder_of(room).glob("*.py")} - {"__init__"}
    mirrored, left_out = set(PORTABLE[room]), set(NOT_MIRRORED.get(room, {}))
    assert mirrored | left_out == files
    assert not mirrored & left_out
    assert set(PORTABLE[room].values()) <= set(CLAIMED)
    assert all(len(reason) > 20 for reason in NOT_MIRRORED.get(room, {}).values())


def test_each_room_is_listed() -> None:
    assert {room.split("/")[0] for room in PORTABLE} == ROOMS
    folders = {str(file.parent.relative_to(SOURCE)) for file in SOURCE.glob("learning/**/*.py")}
    assert folders == {room for room in PORTABLE if room.startswith("learning")}
    assert set(NOT_MIRRORED) <= set(PORTABLE)


def check_port(folder: Path, suffix: str, room: str, further: dict[str, str]) -> None:
    """Fail unless a room of a port has each file of the list, and a reason for each file beside them."""
    files = {file.stem for file in (folder / room).glob(f"*{suffix}")}
    mirrored = {pascal(stem) for stem in PORTABLE.get(room, {})}
    assert sorted(mirrored - files) == [], "missing"
    assert sorted(files - mirrored) == sorted(further), "without a reason, or with a reason and no file"
    assert not mirrored & set(further)
    assert all(len(reason) > 20 for reason in further.values())


@pytest.mark.parametrize("room", sorted({*PORTABLE, *FURTHER["kotlin"]}))
def test_the_kotlin_runtime_has_each_file_and_a_reason_for_each_other(room: str) -> None:
    check_port(KOTLIN, ".kt", room, FURTHER["kotlin"].get(room, {}))


def test_each_kotlin_room_is_listed() -> None:
    folders = {file.parent.relative_to(KOTLIN).as_posix() for file in KOTLIN.rglob("*.kt")}
    assert folders == {*PORTABLE, *FURTHER["kotlin"]}


@pytest.mark.parametrize("room", sorted({*PORTABLE, *FURTHER["swift"]}))
def test_the_swift_runtime_has_each_file_and_a_reason_for_each_other(room: str) -> None:
    check_port(SWIFT, ".swift", room, FURTHER["swift"].get(room, {}))


def test_each_swift_room_is_listed() -> None:
    folders = {file.parent.relative_to(SWIFT).as_posix() for file in SWIFT.rglob("*.swift")}
    assert folders == {*PORTABLE, *FURTHER["swift"]}
