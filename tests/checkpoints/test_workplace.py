"""Directories that take their name when complete: after a kill the next writer puts right what was left."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.checkpoints.workplace import refuse_existing, take_name, workplace
from omnidraft.errors import ExportError
from omnidraft.runtime.bundle.bundle import MANIFEST
from omnidraft.runtime.disk.whole_directory import recover

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="directories are claimed by POSIX locks")

KILLED = """
import os, signal, sys
from pathlib import Path
from omnidraft.checkpoints import workplace as w
from omnidraft.runtime.disk import whole_directory as d
out, when = Path(sys.argv[1]), sys.argv[2]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
with w.workplace(out) as work:
    (work / "manifest.json").write_text("new")
    if when == "working":
        die()
    rename = Path.rename
    def first(self, to):
        rename(self, to)
        if when == "between":
            die()
    Path.rename = first
    d.shutil.rmtree = die
    w.take_name(work, out)
"""


def killed(out: Path, when: str) -> None:
    """Write a directory in a process that is killed at a moment."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(out), when], check=False)
    assert done.returncode == -signal.SIGKILL


def bundle(out: Path, content: str = "old") -> Path:
    out.mkdir()
    (out / MANIFEST).write_text(content)
    return out


def names(place: Path) -> list[str]:
    return sorted(each.name for each in place.iterdir())


def test_killed_between_two_renames_the_old_one_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = bundle(tmp_path / "out")
    killed(out, "between")
    assert not out.exists() and len(names(tmp_path)) == 2
    with caplog.at_level(logging.WARNING), pytest.raises(ExportError, match="exists already"):
        refuse_existing(out, overwrite=False)
    assert names(tmp_path) == ["out"] and (out / MANIFEST).read_text() == "old"
    assert "was taken back from" in caplog.text and "was removed" in caplog.text


@pytest.mark.parametrize(("when", "content"), [("working", "old"), ("removing", "new")])
def test_leftovers_of_a_kill_are_removed(tmp_path: Path, when: str, content: str) -> None:
    out = bundle(tmp_path / "out")
    killed(out, when)
    assert len(names(tmp_path)) == 2
    refuse_existing(out, overwrite=True)
    assert names(tmp_path) == ["out"] and (out / MANIFEST).read_text() == content
    with workplace(out) as work:
        (work / MANIFEST).write_text("newest")
        take_name(work, out)
    assert names(tmp_path) == ["out"] and (out / MANIFEST).read_text() == "newest"


def test_a_running_writer_keeps_its_directory(tmp_path: Path) -> None:
    out = bundle(tmp_path / "out")
    with workplace(out) as work:
        out.rename(tmp_path / f".out.{os.getpid()}.old")  # as between its two renames
        recover(out)
        assert work.is_dir() and not out.exists()


def test_other_names_are_left_alone(tmp_path: Path) -> None:
    for name in (".out.1.tmp.mine", ".out.x.tmp", ".other.1.tmp", "out.1.tmp", ".out.1.older"):
        (tmp_path / name).mkdir()
    (tmp_path / ".out.1.tmp").write_text("a file")
    (tmp_path / ".out.2.tmp").symlink_to(tmp_path / ".out.x.tmp")
    before = names(tmp_path)
    recover(tmp_path / "out")
    recover(tmp_path / "absent/out")
    assert names(tmp_path) == before
