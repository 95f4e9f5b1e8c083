"""Directories that take their name when complete: after a kill the next writer puts right what was left."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.checkpoints.workplace import refuse_existing, take_name, workplace
from omnidraft.errors import ExportError
from omnidraft.runtime.bundle.manifest_file import FORMAT, MANIFEST
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
    (work / "manifest.json").write_text(sys.argv[3])
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
    done = subprocess.run([sys.executable, "-c", KILLED, str(out), when, manifest("new")], check=False)
    assert done.returncode == -signal.SIGKILL


def manifest(source: str) -> str:
    """A manifest that lists one file."""
    return json.dumps({"format": FORMAT, "files": {"a/weights": {}}, "source": source})


def bundle(out: Path, source: str = "old") -> Path:
    (out / "a").mkdir(parents=True)
    (out / "a/weights").write_bytes(b"1")
    (out / MANIFEST).write_text(manifest(source))
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
    assert names(tmp_path) == ["out"] and (out / MANIFEST).read_text() == manifest("old")
    assert "was taken back from" in caplog.text and "was removed" in caplog.text


@pytest.mark.parametrize(("when", "content"), [("working", "old"), ("removing", "new")])
def test_leftovers_of_a_kill_are_removed(tmp_path: Path, when: str, content: str) -> None:
    out = bundle(tmp_path / "out")
    killed(out, when)
    assert len(names(tmp_path)) == 2
    refuse_existing(out, overwrite=True)
    assert names(tmp_path) == ["out"] and (out / MANIFEST).read_text() == manifest(content)
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


def test_a_file_system_without_locks_is_named_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", flock)
    sentence = r"its file system does not lock directories: Function not implemented\); choose another place"
    with pytest.raises(ExportError, match=sentence), workplace(tmp_path / "out"):
        pytest.fail("it was claimed")
    assert names(tmp_path) == []


def test_other_names_are_left_alone(tmp_path: Path) -> None:
    for name in (".out.1.tmp.mine", ".out.x.tmp", ".other.1.tmp", "out.1.tmp", ".out.1.older"):
        (tmp_path / name).mkdir()
    (tmp_path / ".out.1.tmp").write_text("a file")
    (tmp_path / ".out.2.tmp").symlink_to(tmp_path / ".out.x.tmp")
    before = names(tmp_path)
    recover(tmp_path / "out")
    recover(tmp_path / "absent/out")
    assert names(tmp_path) == before


def foreign(out: Path, what: str) -> Path:
    """Something that is not a bundle, or holds more than a bundle."""
    bundle(out)
    if what == "another program's":
        (out / MANIFEST).write_text('{"manifest_version": 3, "name": "an extension", "files": {}}')
    elif what == "damaged":
        (out / MANIFEST).write_text(manifest("old")[:-9])
    elif what == "a file of the user":
        (out / "a/notes.txt").write_text("mine")
    elif what == "a link":
        (out / "b").symlink_to(out.parent)
    elif what == "a linked manifest":
        (out / MANIFEST).rename(out.parent / "elsewhere.json")
        (out / MANIFEST).symlink_to(out.parent / "elsewhere.json")
    return out


@pytest.mark.parametrize(
    "what", ["another program's", "damaged", "a file of the user", "a link", "a linked manifest"]
)
def test_what_is_not_ours_is_not_overwritten(tmp_path: Path, what: str) -> None:
    out = foreign(tmp_path / "out", what)
    before = sorted(out.rglob("*"))
    with pytest.raises(ExportError, match="so it is not overwritten") as refused:
        refuse_existing(out, overwrite=True)
    assert sorted(out.rglob("*")) == before
    named = {"a file of the user": "a/notes.txt", "a link": "holds b, which"}.get(what, "is not a bundle")
    assert named in refused.value.message and refused.value.remedy


def test_a_bundle_and_an_empty_directory_are_replaced(tmp_path: Path) -> None:
    out = bundle(tmp_path / "out")
    (out / "a/.DS_Store").write_bytes(b"")
    for name in ("manifest.sig", "pack.json", "Thumbs.db"):
        (out / name).write_bytes(b"")
    refuse_existing(out, overwrite=True)
    (out / "notes.txt").write_text("mine")
    (out / "other.txt").write_text("mine")
    with pytest.raises(
        ExportError, match=r"holds notes.txt and 1 other file, which the bundle does not list"
    ):
        refuse_existing(out, overwrite=True)
    (tmp_path / "empty").mkdir()
    refuse_existing(tmp_path / "empty", overwrite=True)


@pytest.mark.parametrize("name", [".", "..", "../here", "/", "../here/sub/.."])
def test_the_current_directory_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "here/sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    for overwrite in (False, True):
        with pytest.raises(ExportError, match="it is the current directory or above it"):
            refuse_existing(Path(name), overwrite)
