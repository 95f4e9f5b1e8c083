"""Kill -9 while caches and sessions are written: every time there is a whole file, the old or the new one.

OMNIDRAFT_KILLS sets the number of kills for each kind of file (20; `make crash` takes 200).
"""

from __future__ import annotations

import os
import random
import stat
import time
from pathlib import Path

import pytest

from omnidraft.runtime.disk.atomic_write import remove_leftovers, write_atomically
from support.crash_writer import KINDS, SIZES
from support.kills import KILLS, kill_once, start_writer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills by POSIX signals")


@pytest.mark.parametrize("name", KINDS)
def test_killed_at_any_moment_the_old_or_the_new_file_is_whole(tmp_path: Path, name: str) -> None:
    kind, path = KINDS[name], tmp_path / "learned"
    kind.write(path, 1)
    rng = random.Random(0)
    writer = start_writer(name, path)
    amid = 0
    try:
        for kill in range(20 * KILLS):
            if kill >= KILLS and amid >= KILLS // 10:
                break
            done = kill_once(writer, rng.uniform(0.0, 0.03))
            number = kind.number(path)  # refuses a file that is not whole
            # The file is the last one that was reported as written, or the next one.
            assert number in (done, done + 1)
            assert path.read_bytes() == kind.encoded(number)
            amid += remove_leftovers(path)
            assert [p.name for p in tmp_path.iterdir()] == ["learned"]
    finally:
        writer.kill()
        writer.communicate()
    assert number > KILLS
    # The test needs kills during a write.
    assert amid >= KILLS // 10, f"{amid} of {KILLS} kills left a temporary file"
    assert len(set(SIZES)) == 3


def test_a_later_write_removes_old_leftovers_only(tmp_path: Path) -> None:
    path = tmp_path / "learned"
    old, young, other = (
        tmp_path / f".{n}.{d * 16}.tmp" for n, d in (("learned", "a"), ("learned", "b"), ("x", "c"))
    )
    for leftover in (old, young, other):
        leftover.write_bytes(b"half")
    os.utime(old, (time.time() - 61, time.time() - 61))
    os.utime(other, (0, 0))
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in (young, other, path))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "learned"
    write_atomically(path, b"old")
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, lambda *_: (_ for _ in ()).throw(OSError("disk full")))
            with pytest.raises(OSError, match="disk full"):
                write_atomically(path, b"new")
        assert path.read_bytes() == b"old"
        assert [p.name for p in tmp_path.iterdir()] == ["learned"]


def test_file_then_rename_then_directory_reach_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename that reaches the disk before its data, or is not flushed itself, is lost when power fails."""
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(handle: int) -> None:
        calls.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def note_replace(source: Path, place: Path) -> None:
        calls.append("rename")
        replace(source, place)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_atomically(tmp_path / "learned", b"new")
    assert calls == ["file", "rename", "directory"]
