"""Files that are known by their stamps: hashed again after every ordinary way to change them."""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from omnidraft.errors import BundleError
from omnidraft.runtime.bundle import hashes
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.hashes import Record, Verify, file_sha256, verify_files
from omnidraft.runtime.device import check_record
from omnidraft.runtime.models.load_graph import load_drafter
from omnidraft.runtime.parts.file_places import FilePlaces

SEAL = "5e" * 32
NAMES = ("a.onnx", "b/c.json")


class Files:
    """Two files, and how often one of them was hashed."""

    def __init__(self, path: Path) -> None:
        self.path, self.hashed = path, 0
        (path / "b").mkdir(parents=True)
        for name in NAMES:
            (path / name).write_bytes(name.encode())
        sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in NAMES}
        self.records = {name: Record(sums[name], len(name)) for name in NAMES}

    def check(self, verify: Verify = "stamp", seal: str = SEAL, path: Path | None = None) -> int:
        """Check the files, and return how many were hashed."""
        before = self.hashed
        verify_files(FilePlaces(path or self.path), self.records, seal, verify)
        return self.hashed - before


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """The files, old enough for a record."""
    monkeypatch.setenv("OMNIDRAFT_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(check_record, "SETTLED", -(1 << 62))
    made = Files(tmp_path / "bundle")

    def counted(file: Path) -> str:
        made.hashed += 1
        return file_sha256(file)

    monkeypatch.setattr(hashes, "file_sha256", counted)
    return made


def test_files_are_hashed_once(files: Files) -> None:
    assert [files.check() for _ in range(3)] == [2, 0, 0]
    assert files.check("full") == 2
    assert files.check(seal="5f" * 32) == 2, "another manifest"


def test_a_copy_is_another_bundle(files: Files, tmp_path: Path) -> None:
    files.check()
    copy = Path(shutil.copytree(files.path, tmp_path / "copy"))
    assert files.check(path=copy) == 2
    (tmp_path / "link").symlink_to(files.path)
    assert files.check(path=tmp_path / "link") == 0, "the same directory by another name"


def spoil_in_place(file: Path) -> None:
    """Other bytes, the same size and times."""
    status = file.stat()
    file.write_bytes(b"x" * status.st_size)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def spoil_by_rename(file: Path) -> None:
    """Another file with the same size and times."""
    status = file.stat()
    other = file.with_name("other")
    other.write_bytes(b"x" * status.st_size)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)


def spoil_in_the_middle(file: Path) -> None:
    """One byte, by a write in the middle."""
    with file.open("r+b") as handle:
        handle.seek(1)
        handle.write(b"x")


@pytest.mark.parametrize("spoil", [spoil_in_place, spoil_by_rename, spoil_in_the_middle])
@pytest.mark.parametrize("name", NAMES)
def test_every_ordinary_change_is_found(files: Files, name: str, spoil: Callable[[Path], None]) -> None:
    files.check()
    spoil(files.path / name)
    with pytest.raises(BundleError, match="SHA-256 does not match") as caught:
        files.check()
    assert caught.value.fault == "checksum"


def seen_after_a_flush(folder: Path) -> bool:
    """Whether this file system tells a write through a page that was on the disk."""
    file = folder / "probe"
    file.write_bytes(bytes(4096))
    with file.open("r+b") as handle, mmap.mmap(handle.fileno(), 0) as memory:
        memory[0] = 1
        os.fsync(handle.fileno())
        before = file.stat().st_mtime_ns
        time.sleep(0.05)
        memory[1] = 1
        return file.stat().st_mtime_ns != before


def test_a_write_through_a_page_that_was_mapped_before_is_found(files: Files, tmp_path: Path) -> None:
    if not seen_after_a_flush(tmp_path):
        pytest.skip("this file system never tells a write through a mapped page")
    with (files.path / "a.onnx").open("r+b") as handle, mmap.mmap(handle.fileno(), 0) as memory:
        memory[0] = memory[0]  # the page waits for the disk
        assert [files.check(), files.check()] == [2, 0]
        time.sleep(0.05)
        memory[0] = 0
        with pytest.raises(BundleError, match="SHA-256 does not match"):
            files.check()


def test_what_is_absent_or_a_link_has_its_own_fault(files: Files, tmp_path: Path) -> None:
    files.check()
    file = files.path / "a.onnx"
    file.rename(tmp_path / "a.onnx")
    with pytest.raises(BundleError, match="missing"):
        files.check()
    file.symlink_to(tmp_path / "a.onnx")
    with pytest.raises(BundleError, match="is a link"):
        files.check()
    file.unlink()
    file.write_bytes(b"short")
    with pytest.raises(BundleError, match="5 bytes instead of 6"):
        files.check()


def test_a_record_that_cannot_be_read_is_none(files: Files, tmp_path: Path) -> None:
    files.check()
    (record,) = (tmp_path / "state/checked").iterdir()
    whole = record.read_bytes()
    for damaged in (b"", whole[:-1], whole.replace(b'"version":1', b'"version":2'), b"[" * 99, b"\xff"):
        record.write_bytes(damaged)
        assert files.check() == 2, damaged
        assert record.read_bytes() == whole
    record.write_bytes(whole.replace(b'"stamps":"', b'"stamps":"0')[:-3] + b'"}')
    assert files.check() == 2


def test_a_file_that_just_changed_is_not_recorded(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could change again within one step of the clock, and keep its stamp."""
    monkeypatch.setattr(check_record, "SETTLED", 3600 * 10**9)
    assert [files.check() for _ in range(2)] == [2, 2]


def test_a_bundle_that_is_known_by_stamps_must_not_change_while_it_is_loaded(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_record, "SETTLED", -(1 << 62))
    copy = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    open_bundle(copy)
    with monkeypatch.context() as patch:
        patch.delattr(hashes, "file_sha256")  # nothing may be hashed
        opened = open_bundle(copy, verify="stamp")
    assert load_drafter(opened)
    os.utime(copy / opened.drafter.graph, ns=(0, 0))
    with pytest.raises(BundleError, match="was changed while it was loaded"):
        load_drafter(opened)
