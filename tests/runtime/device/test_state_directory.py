"""The private directory of records: modes, bounds, and places that remember nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from omnidraft.runtime.device import state_directory
from omnidraft.runtime.device.state_directory import MOST_BYTES, read_record, record_key, write_record

KEY = record_key("a", "b")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMNIDRAFT_STATE", str(tmp_path / "deep/state"))
    return tmp_path / "deep/state"


def test_a_record_is_its_owners_alone(state: Path) -> None:
    assert read_record("kind", KEY) is None
    assert write_record("kind", KEY, b"1")
    assert read_record("kind", KEY) == b"1"
    assert write_record("kind", KEY, b"2")
    assert read_record("kind", KEY) == b"2"
    assert stat.S_IMODE((state / "kind").stat().st_mode) == 0o700
    assert [stat.S_IMODE(each.stat().st_mode) for each in (state / "kind").iterdir()] == [0o600]


def test_a_directory_of_others_is_not_used(state: Path) -> None:
    assert write_record("kind", KEY, b"1")
    for mode in (0o755, 0o770, 0o701):
        (state / "kind").chmod(mode)
        assert read_record("kind", KEY) is None
        assert not write_record("kind", KEY, b"2")
    (state / "kind").chmod(0o700)
    assert read_record("kind", KEY) == b"1"


def test_a_directory_that_others_can_write_or_a_link_is_not_used(state: Path, tmp_path: Path) -> None:
    assert write_record("kind", KEY, b"1")
    for mode, used in ((0o770, False), (0o702, False), (0o755, True)):
        state.chmod(mode)
        assert write_record("kind", KEY, b"1") == used and (read_record("kind", KEY) is not None) == used
    private = tmp_path / "private"
    (state / "kind").rename(private)
    (state / "kind").symlink_to(private)
    assert not write_record("kind", KEY, b"2") and read_record("kind", KEY) is None
    (state / "kind").unlink()
    private.rename(state / "kind")
    state.rename(tmp_path / "elsewhere")
    state.symlink_to(tmp_path / "elsewhere")
    assert not write_record("kind", KEY, b"2") and read_record("kind", KEY) is None


def test_files_that_are_no_records_stay(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_directory, "MOST_RECORDS", 1)
    assert write_record("kind", KEY, b"1")
    others = ["letter.txt", "x.json", f"{KEY}.txt", f"{KEY.upper()}.json", f"{KEY}0.json", f".{KEY}.json"]
    for name in others:
        (state / "kind" / name).write_text("mine")
        os.utime(state / "kind" / name, (1, 1))
    (state / "kind" / f"{'0' * 32}.json").mkdir()
    keys = [record_key(str(i)) for i in range(3)]
    for i, key in enumerate(keys):
        assert write_record("kind", key, b"1")
        os.utime(state / "kind" / f"{key}.json", ns=(i, i))
    left = {each.name for each in (state / "kind").iterdir()}
    assert left == {*others, f"{'0' * 32}.json", f"{keys[2]}.json"}


def test_a_place_that_cannot_be_written_remembers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in ("/dev/null", "/proc/x", str(tmp_path / "file"), str(tmp_path / ("n" * 300))):
        monkeypatch.setenv("OMNIDRAFT_STATE", place)
        assert not write_record("kind", KEY, b"1")
        assert read_record("kind", KEY) is None


def test_what_is_no_record_is_none(state: Path) -> None:
    assert not write_record("kind", KEY, b"x" * (MOST_BYTES + 1))
    assert write_record("kind", KEY, b"1")
    file = state / "kind" / f"{KEY}.json"
    file.write_bytes(b"x" * (MOST_BYTES + 1))
    assert read_record("kind", KEY) is None
    file.unlink()
    os.mkfifo(file)  # reading it would block
    assert read_record("kind", KEY) is None
    assert not write_record("kind", KEY, b"1")


def test_the_oldest_records_are_deleted(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_directory, "MOST_RECORDS", 3)
    keys = [record_key(str(i)) for i in range(5)]
    for i, key in enumerate(keys):
        assert write_record("kind", key, b"1")
        os.utime(state / "kind" / f"{key}.json", ns=(i, i))
    assert [read_record("kind", key) is None for key in keys] == [True, True, False, False, False]


def test_parts_of_a_key_do_not_run_together() -> None:
    assert len({record_key("ab", "c"), record_key("a", "bc"), record_key("abc"), record_key("abc", "")}) == 4


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname == "Darwin", reason="they have other places")
def test_the_place_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMNIDRAFT_STATE")
    monkeypatch.setenv("HOME", str(tmp_path))
    for base, place in ((str(tmp_path / "x"), tmp_path / "x"), ("relative", tmp_path / ".local/state")):
        monkeypatch.setenv("XDG_STATE_HOME", base)
        assert state_directory.state_directory() == place / "omnidraft"
