"""Archives that run in place: unpacked by one process, and kept while any uses them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.errors import ArchiveError
from omnidraft.packing import unpack_once as module
from omnidraft.packing.device_files import PackOptions
from omnidraft.packing.unpack_once import unpack_once
from omnidraft.packing.write_archive import pack
from omnidraft.runtime.archive.archive import Archive
from omnidraft.runtime.archive.open_archive import open_archive
from support.packable import packable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")

USER = """
import sys, time
from pathlib import Path
from omnidraft.packing.unpack_once import unpack_once
from omnidraft.runtime.archive.open_archive import open_archive
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.hashes import check_unchanged
folder, number, users = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def wait(pattern, count):
    while len(list(folder.glob(pattern))) < count:
        time.sleep(0.01)
(folder / f"ready-{number}").touch()
wait("ready-*", users)
unpacked = unpack_once(open_archive(folder / "0.zip"))
opened = open_bundle(unpacked.place)
(folder / f"open-{number}").touch()
wait("open-*", users)
wait("go", 1)
check_unchanged(opened.places, opened.stamps)
print("new" if unpacked.is_new else "old")
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OMNIDRAFT_CACHE", "OMNIDRAFT_STATE"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setattr(module, "_USED", {})
    return tmp_path / "omnidraft_cache"


def archive(folder: Path, number: int) -> Archive:
    """One of several archives that differ."""
    bundle = packable(folder / f"bundle-{number}", target=b"%d" % number)
    return open_archive(pack(bundle, folder / f"{number}.zip", PackOptions("desktop")).path)


def users(folder: Path, count: int) -> list[subprocess.Popen[str]]:
    """Processes that use the first archive at once, until a file `go` is there."""
    numbers = [sys.executable, "-c", USER, str(folder)]
    return [
        subprocess.Popen(
            [*numbers, str(n), str(count)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for n in range(count)
    ]


def said(user: subprocess.Popen[str]) -> str:
    out, err = user.communicate(timeout=120)
    return out.strip() or err


def test_of_processes_at_once_one_unpacks_and_none_is_disturbed(cache: Path, tmp_path: Path) -> None:
    archive(tmp_path, 0)
    (tmp_path / "go").touch()
    assert sorted(map(said, users(tmp_path, 4))) == ["new", "old", "old", "old"]
    assert len(list((cache / "archives").iterdir())) == 1


def test_what_a_process_uses_is_neither_deleted_nor_replaced(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", 1)
    first, others = archive(tmp_path, 0), [archive(tmp_path, number) for number in (1, 2, 3)]
    (user,) = users(tmp_path, 1)
    while not (tmp_path / "open-0").exists():
        assert user.poll() is None
    (used,) = (cache / "archives").iterdir()
    os.utime(used, (1, 1))
    kept = [unpack_once(each).place for each in others[:2]]
    assert used.is_dir() and kept[0].is_dir(), "this process uses the others"
    monkeypatch.setattr(module, "_USED", {})  # the handles are closed below, as at the end of a process
    (used / "target/tokenizer.bin").write_bytes(b"damaged")
    with pytest.raises(ArchiveError, match="is damaged and in use; end the programs that use it") as refused:
        unpack_once(first)
    assert refused.value.fault == "in_use" and used.is_dir()
    (tmp_path / "go").touch()
    assert "was changed while it was loaded" in said(user), "by this test"
    assert unpack_once(first).is_new


def test_the_oldest_that_nobody_uses_are_deleted(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    places = []
    for number in range(4):
        places.append(unpack_once(archive(tmp_path, number)).place)
        if number == 0:
            (places[0] / "notes.txt").write_text("mine")
        os.utime(places[-1], (number, number))
        for handle in module._USED.values():
            os.close(handle)
        module._USED.clear()
    assert [place.is_dir() for place in places] == [True, False, True, True], "a user's file stays"
    assert not list((cache / "locks").glob(f"{places[1].name}.*"))


@pytest.mark.parametrize("what", ["", "archives", "locks"])
@pytest.mark.parametrize("fault", ["link", "writable"])
def test_a_directory_of_others_is_refused(cache: Path, tmp_path: Path, what: str, fault: str) -> None:
    place = cache / what
    if fault == "writable":
        place.mkdir(parents=True)
        place.chmod(0o777)
    else:
        (tmp_path / "private").mkdir()
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(tmp_path / "private")
    with pytest.raises(ArchiveError, match=f"{place} is a link, or is not yours alone to write") as refused:
        unpack_once(archive(tmp_path, 0))
    assert "set OMNIDRAFT_CACHE, or run `omnidraft unpack" in refused.value.remedy
    assert refused.value.fault == "unwritable"
