"""A kill while an archive is unpacked leaves the old, the new or no bundle; the next writer tidies up."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.packing.device_files import PackOptions
from omnidraft.packing.write_archive import pack
from omnidraft.runtime.archive.open_archive import open_archive
from omnidraft.runtime.archive.unpack import unpack
from omnidraft.runtime.bundle.bundle import open_bundle
from support.packable import NEEDS, packable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="directories are claimed by POSIX locks")
KILLED = """
import os, signal, sys
from pathlib import Path
from omnidraft.runtime.archive.open_archive import open_archive
from omnidraft.runtime.archive.unpack import unpack
archive, out, when, calls = open_archive(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), 0
def dying(call):
    def run(*arguments):
        global calls
        calls += 1
        if calls == when:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)
    return run
os.fsync, os.replace, Path.rename = dying(os.fsync), dying(os.replace), dying(Path.rename)
unpack(archive, out, overwrite=True)
print(calls)
"""
TARGET = "target/cpu/model.onnx.data"


def run(archive: Path, out: Path, when: int) -> int:
    """Unpack in another process that is killed at a call; 0: never. Return the number of its calls."""
    command = [sys.executable, "-c", KILLED, str(archive), str(out), str(when)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (-signal.SIGKILL if when else 0), done.stderr
    return 0 if when else int(done.stdout)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The old bundle and the new one, and the drafter alone."""
    place = tmp_path_factory.mktemp("archives")
    made = [packable(place / name, name.encode()) for name in ("old", "new")]
    parts = zip([*made, made[0]], ("with", "with", "only"), strict=True)
    return [
        pack(bundle, place / f"{number}.zip", PackOptions("android-cpu", drafter)).path
        for number, (bundle, drafter) in enumerate(parts)
    ]


def test_a_kill_leaves_a_whole_bundle_or_none(archives: list[Path], tmp_path: Path) -> None:
    old, new = archives[:2]
    out = unpack(open_archive(old), tmp_path / "out")
    calls = run(new, out, 0)
    assert calls > 15
    for when in (1, calls // 2, calls - 2, calls - 1, calls):
        unpack(open_archive(old), out, overwrite=True)
        run(new, out, when)
        if out.exists():
            assert open_bundle(out).file(TARGET).read_bytes() in (b"old", b"new")
        unpack(open_archive(new), out, overwrite=True)
        assert open_bundle(out).file(TARGET).read_bytes() == b"new"
        assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_kill_leaves_a_shared_drafter_that_can_be_completed(archives: list[Path], tmp_path: Path) -> None:
    archive = archives[2]
    place = tmp_path / "apps/drafters" / open_archive(archive).address
    calls = run(archive, tmp_path / "apps", 0)
    (place / "tokenizer.bin").write_bytes(b"damaged")
    for when in (2, calls - 1, 1):
        run(archive, tmp_path / "apps", when)
        if when == calls - 1:  # killed before the place had its name
            assert not place.exists()
        unpack(open_archive(archive), tmp_path / "apps")
        held = {
            f"drafter/{file.relative_to(place).as_posix()}" for file in place.rglob("*") if file.is_file()
        }
        assert held == {name for name in NEEDS["android-cpu"] if name.startswith("drafter/")}
        assert (place / "tokenizer.bin").read_bytes() == b"drafter/tokenizer.bin"
        assert [each.name for each in place.parent.iterdir()] == [place.name]
        if when == 2:
            for file in sorted(place.rglob("*"), reverse=True):
                file.unlink() if file.is_file() else file.rmdir()
            place.rmdir()
