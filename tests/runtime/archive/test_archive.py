"""Archives: what each device gets, bytes that are always the same, and files that are refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

from omnidraft.errors import ArchiveError, BundleError, SettingError, SignatureError
from omnidraft.packing.device_files import PackOptions
from omnidraft.packing.write_archive import pack
from omnidraft.runtime.archive.archive import check_hashes
from omnidraft.runtime.archive.open_archive import is_archive, open_archive
from omnidraft.runtime.archive.unpack import unpack
from omnidraft.runtime.archive.zip_layout import ALIGNMENT, ArchiveEntry, central_directory
from omnidraft.runtime.archive.zip_reader import read_entries
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST
from omnidraft.runtime.bundle.signature import SIGNATURE
from omnidraft.runtime.parts.pack_index import DEVICES, INDEX
from support.command_line import Run
from support.packable import DRAFTER, NEEDS, TRAIN, packable


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return packable(tmp_path / "whole")


def packed(bundle: Path, out: Path, device: str = "android-cpu", drafter: str = "with") -> Path:
    out.unlink(missing_ok=True)
    return pack(bundle, out, PackOptions(device, drafter)).path


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_gets_what_it_needs_and_nothing_else(device: str, whole: Path, tmp_path: Path) -> None:
    result = pack(whole, tmp_path / "x.zip", PackOptions(device))
    archive = open_archive(result.path)
    assert set(archive.files) == NEEDS[device]
    assert archive.beside[MANIFEST] == (whole / MANIFEST).read_bytes()
    check_hashes(archive)
    place = unpack(archive, tmp_path / "unpacked")
    opened = open_bundle(place)
    for name in NEEDS[device]:
        assert opened.file(name).read_bytes() == (whole / name).read_bytes() == bytes(archive.mapped(name))
    assert result.files == len(NEEDS[device])
    assert result.download == result.path.stat().st_size
    assert result.on_disk == sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


def test_other_tools_read_it_and_every_file_is_aligned(whole: Path, tmp_path: Path) -> None:
    archive = open_archive(packed(whole, tmp_path / "x.zip"))
    assert all(entry.begin % ALIGNMENT == 0 for entry in archive.entries.values())
    with zipfile.ZipFile(archive.path) as file:
        assert file.testzip() is None
        assert file.namelist() == list(archive.entries)
        assert file.namelist()[0] == MANIFEST
        assert all(info.compress_type == zipfile.ZIP_STORED for info in file.infolist())
        assert file.read("target/cpu/model.onnx.data") == b"a target"
    assert is_archive(archive.path) and not is_archive(whole) and not is_archive(tmp_path / "absent")


def test_the_same_bundle_gives_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    first = packed(whole, tmp_path / "x.zip").read_bytes()
    again = shutil.copytree(whole, tmp_path / "copied")
    for file in again.rglob("*"):
        os.utime(file, (1, 1))
    assert packed(again, tmp_path / "y.zip").read_bytes() == first
    unpacked = unpack(open_archive(tmp_path / "y.zip"), tmp_path / "unpacked")
    assert packed(unpacked, tmp_path / "z.zip").read_bytes() == first, "and so does an unpacked archive"


def test_what_was_left_out_is_refused_with_the_archives_that_have_it(whole: Path, tmp_path: Path) -> None:
    phone = open_bundle(
        unpack(open_archive(packed(whole, tmp_path / "x.zip", "android-qnn")), tmp_path / "u")
    )
    with pytest.raises(BundleError, match=r"packed with --for desktop or android-cpu or ios-cpu") as refused:
        phone.file("target/cpu/model.onnx")
    assert refused.value.fault == "left_out" and "packed for android-qnn" in refused.value.message
    with pytest.raises(BundleError, match="which was not packed"):
        phone.file("target/tokenizer.json")
    with pytest.raises(BundleError, match="left out when"):
        packed(phone.path, tmp_path / "y.zip", "android-cpu")
    pack(whole, tmp_path / "n.zip", PackOptions("ios-cpu", learning=False))
    archive = open_archive(tmp_path / "n.zip")
    assert set(archive.files) == NEEDS["ios-cpu"] - (TRAIN - DRAFTER)
    with pytest.raises(BundleError, match="without --no-learning"):
        archive.mapped("drafter/train/step.onnx")


def test_a_drafter_and_a_target_make_the_whole(whole: Path, tmp_path: Path) -> None:
    for part, where in (("without", tmp_path / "apps/one"), ("only", tmp_path / "apps")):
        unpack(open_archive(packed(whole, tmp_path / "x.zip", drafter=part)), where)
        if part == "without":
            with pytest.raises(BundleError, match="shares its drafter: copy") as refused:
                open_bundle(where)
            assert refused.value.fault == "missing"
    opened = open_bundle(tmp_path / "apps/one")
    for name in NEEDS["android-cpu"]:
        assert opened.file(name).read_bytes() == (whole / name).read_bytes()
    assert not (tmp_path / "apps/one/drafter").exists()


def test_a_drafter_of_another_device_is_completed(whole: Path, tmp_path: Path) -> None:
    for device in ("android-cpu", "android-qnn"):
        archive = open_archive(packed(whole, tmp_path / "x.zip", device, "only"))
        place = unpack(archive, tmp_path / "apps")
        (place / "tokenizer.bin").write_bytes(b"damaged")
    place = unpack(open_archive(tmp_path / "x.zip"), tmp_path / "apps")
    needed = {name for device in ("android-cpu", "android-qnn") for name in NEEDS[device]}
    held = {f"drafter/{file.relative_to(place).as_posix()}" for file in place.rglob("*") if file.is_file()}
    assert held == {name for name in needed if name.startswith("drafter/")}
    assert (place / "tokenizer.bin").read_bytes() == b"drafter/tokenizer.bin"
    assert [file.name for file in place.parent.iterdir()] == [place.name], "nothing is left beside it"


def test_a_signed_bundle_stays_signed(whole: Path, tmp_path: Path, run: Run) -> None:
    pytest.importorskip("cryptography")
    from omnidraft.signing import make_keys, sign_bundle

    private, public, name = make_keys(tmp_path / "mine")
    other = make_keys(tmp_path / "other")[1]
    with pytest.raises(SignatureError, match="unsigned"):
        open_archive(packed(whole, tmp_path / "x.zip"), public)
    sign_bundle(whole, private, lambda: b"")
    archive = open_archive(packed(whole, tmp_path / "x.zip"), public)
    assert list(archive.entries)[:3] == [MANIFEST, SIGNATURE, INDEX]
    assert archive.bundle.signed_by == name
    assert open_bundle(unpack(archive, tmp_path / "unpacked"), public).signed_by == name
    with pytest.raises(SignatureError) as refused:
        open_archive(archive.path, other)
    assert refused.value.fault == "other_key"
    status, out, _ = run("verify", archive.path, "--key", public)
    assert status == 0 and f"signed with key {name}, all {len(archive.files)} hashes match" in out


def test_a_place_that_exists_is_left_alone(whole: Path, tmp_path: Path) -> None:
    archive = open_archive(packed(whole, tmp_path / "x.zip"))
    with pytest.raises(ArchiveError, match="exists already"):
        pack(whole, archive.path, PackOptions("desktop"))
    place = tmp_path / "place"
    place.mkdir()
    (place / "mine.txt").write_text("mine")
    for overwrite, why in ((False, "exists already"), (True, "is not a bundle")):
        with pytest.raises(ArchiveError, match=why) as refused:
            unpack(archive, place, overwrite)
        assert refused.value.fault == "unwritable"
    assert [file.name for file in place.iterdir()] == ["mine.txt"]
    (place / MANIFEST).write_text('{"manifest_version": 3}')
    with pytest.raises(ArchiveError, match="is not a bundle"):  # of a browser's extension
        unpack(archive, place, overwrite=True)
    shutil.copy(whole / MANIFEST, place / MANIFEST)
    with pytest.raises(ArchiveError, match=r"holds mine.txt, which the bundle does not list"):
        unpack(archive, place, overwrite=True)
    assert (place / "mine.txt").read_text() == "mine"
    (place / "mine.txt").unlink()
    assert open_bundle(unpack(archive, place, overwrite=True)).target.graph
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(ArchiveError, match="is not a bundle"):
        unpack(archive, tmp_path / "link", overwrite=True)


@pytest.mark.parametrize("name", [".", "..", "../here", "/"])
def test_the_current_directory_is_refused_in_a_sentence(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    archive = open_archive(packed(whole, tmp_path / "x.zip"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for overwrite in (False, True):
        with pytest.raises(ArchiveError, match="it is the current directory or above it"):
            unpack(archive, Path(name), overwrite)


def test_what_was_put_there_meanwhile_stays(whole: Path, tmp_path: Path) -> None:
    archive = open_archive(packed(whole, tmp_path / "x.zip"))

    def meanwhile(done: int, total: int) -> None:
        (tmp_path / "place").mkdir(exist_ok=True)
        (tmp_path / "place/mine.txt").write_text("mine")

    for overwrite, why in ((False, "was written by another process meanwhile"), (True, "is not a bundle")):
        with pytest.raises(ArchiveError, match=why) as refused:
            unpack(archive, tmp_path / "place", overwrite, meanwhile)
        assert refused.value.fault == "unwritable"
        assert [file.name for file in (tmp_path / "place").iterdir()] == ["mine.txt"]
        shutil.rmtree(tmp_path / "place")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["whole", "x.zip"]


WRITER = """
import sys, time
from pathlib import Path
from omnidraft.errors import ArchiveError
from omnidraft.runtime.archive.open_archive import open_archive
from omnidraft.runtime.archive.unpack import unpack
folder, number = Path(sys.argv[1]), sys.argv[2]
def all_have_begun(done, total):
    (folder / f"begun-{number}").touch()
    while len(list(folder.glob("begun-*"))) < 3:
        time.sleep(0.01)
try:
    unpack(open_archive(folder / "x.zip"), folder / "place", progress=all_have_begun)
    print("won")
except ArchiveError as error:
    print(error.message)
"""


def test_of_writers_at_once_one_wins_and_the_others_are_refused(whole: Path, tmp_path: Path) -> None:
    packed(whole, tmp_path / "x.zip")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(n)], stdout=subprocess.PIPE, text=True
        )
        for n in range(3)
    ]
    said = sorted(writer.communicate(timeout=120)[0].strip() for writer in writers)
    refusal = f"{tmp_path / 'place'} was written by another process meanwhile"
    assert said == sorted(["won", refusal, refusal])
    assert open_bundle(tmp_path / "place").target.graph


def test_pack_replaces_nothing(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.zip"
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("letter.xml", "mine")
    with pytest.raises(ArchiveError, match="exists already") as refused:
        pack(whole, out, PackOptions("desktop"))
    assert refused.value.fault == "unwritable" and zipfile.ZipFile(out).namelist() == ["letter.xml"]


def test_a_full_disk_is_told_before_anything_is_written(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = open_archive(packed(whole, tmp_path / "x.zip"))
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1000))
    for write in (
        lambda: unpack(archive, tmp_path / "u"),
        lambda: pack(whole, tmp_path / "y.zip", PackOptions("desktop")),
    ):
        with pytest.raises(ArchiveError, match=r"needs .* 1000 left") as refused:
            write()
        assert refused.value.fault == "space"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["whole", "x.zip"]


def test_an_archive_that_changes_leaves_nothing(whole: Path, tmp_path: Path) -> None:
    archive = open_archive(packed(whole, tmp_path / "x.zip"))
    data = bytearray(archive.path.read_bytes())
    data[archive.entries["vocab_map.safetensors"].begin] ^= 1
    archive.path.write_bytes(data)
    with pytest.raises(ArchiveError, match=r"the checksum of vocab_map\.safetensors is wrong") as refused:
        unpack(archive, tmp_path / "u")
    assert refused.value.fault == "checksum"
    archive.path.write_bytes(data[:-100_000])
    with pytest.raises(ArchiveError) as refused:
        unpack(archive, tmp_path / "u")
    assert refused.value.fault in ("truncated", "checksum")
    assert not (tmp_path / "u").exists() and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("link", ["drafters", "drafters/ADDRESS", "drafters/ADDRESS/cpu"])
def test_a_shared_drafter_is_not_written_through_a_link(link: str, whole: Path, tmp_path: Path) -> None:
    archive = open_archive(packed(whole, tmp_path / "x.zip", drafter="only"))
    apps, elsewhere = tmp_path / "apps", tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = apps / link.replace("ADDRESS", archive.address)
    path.parent.mkdir(parents=True)
    path.symlink_to(elsewhere)
    with pytest.raises(ArchiveError, match="is a link") as refused:
        unpack(archive, apps)
    assert refused.value.fault == "outside" and not list(elsewhere.iterdir())


def test_what_cannot_be_packed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="--for 'toaster' is unknown"):
        PackOptions("toaster")
    bundle = packable(tmp_path / "damaged", more={"target/cpu/model.onnx": b"\x0b"})
    with pytest.raises(BundleError, match="is refused") as refused:
        packed(bundle, tmp_path / "x.zip")
    assert refused.value.fault == "outside"
    assert not (tmp_path / "x.zip").exists()


def test_more_entries_than_a_manifest_has_are_refused(tmp_path: Path) -> None:
    file, entries, at = tmp_path / "many.zip", list[ArchiveEntry](), 0
    with open(file, "wb") as out:
        for number in range(1028):
            entry = ArchiveEntry(f"f{number}", at, 0, 0)
            out.seek(at)
            out.write(entry.local_header().rstrip(b"\0"))
            entries.append(entry)
            at = entry.end
        out.seek(at)
        out.write(central_directory(entries, at))
    with open(file, "rb") as source, pytest.raises(ArchiveError) as refused:
        read_entries(source)
    assert refused.value.fault == "limits"


def test_files_beyond_4_gib(tmp_path: Path) -> None:
    """Headers alone: the files are holes, which take no space on the disk."""
    file, entries, at = tmp_path / "large.zip", list[ArchiveEntry](), 0
    with open(file, "wb") as out:
        for name, size in (("a", 5), ("b", (1 << 32) - 1), ("c", (1 << 33) + 1), ("d", 7)):
            entry = ArchiveEntry(name, at, size, 0)
            out.seek(at)
            out.write(entry.local_header())
            entries.append(entry)
            at = entry.end
        out.seek(at)
        out.write(central_directory(entries, at))
    with open(file, "rb") as source:
        assert read_entries(source) == entries
    with zipfile.ZipFile(file) as other:
        assert [(e.filename, e.file_size, e.header_offset) for e in other.infolist()] == [
            (entry.name, entry.size, entry.at) for entry in entries
        ]
    file.unlink()
