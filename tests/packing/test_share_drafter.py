"""A drafter that bundles share: one directory, found by an address that the manifest gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from omnidraft.errors import ArchiveError, BundleError
from omnidraft.packing.device_files import PackOptions
from omnidraft.packing.share_drafter import address_of, is_shared_drafter, share_drafter, users_of
from omnidraft.packing.write_archive import pack
from omnidraft.runtime.archive.open_archive import open_archive
from omnidraft.runtime.archive.unpack import unpack
from omnidraft.runtime.bundle.bundle import open_bundle, unlisted_files
from omnidraft.runtime.bundle.manifest_file import MANIFEST
from support.packable import NEEDS, packable


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two bundles of other targets with one drafter, which they share."""
    bundles = packable(tmp_path / "a", b"target a"), packable(tmp_path / "b", b"target b")
    for bundle in bundles:
        share_drafter(bundle)
    return bundles


def test_two_targets_have_one_drafter_on_disk(pair: tuple[Path, Path], tmp_path: Path) -> None:
    opened = [open_bundle(bundle) for bundle in pair]
    place = tmp_path / "drafters" / address_of(opened[0])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b", "drafters"]
    assert [each.name for each in place.parent.iterdir()] == [place.name], "nothing is left beside it"
    for bundle in opened:
        assert bundle.places.shared == place.resolve()
        assert not (bundle.path / "drafter").exists() and not unlisted_files(bundle)
        assert bundle.file("drafter/train/step.onnx").is_relative_to(place.resolve())
        assert share_drafter(bundle.path) == place.resolve(), "again, nothing changes"
    assert is_shared_drafter(place) and not is_shared_drafter(pair[0])
    assert users_of(place).bundles == ["a", "b"]


def test_an_own_drafter_comes_first(pair: tuple[Path, Path], tmp_path: Path) -> None:
    place = open_bundle(pair[0]).places.shared
    assert place is not None
    shutil.copytree(place, pair[0] / "drafter")
    assert open_bundle(pair[0]).places.shared is None
    assert users_of(place).bundles == ["b"]
    (pair[0] / "drafter/tokenizer.bin").unlink()
    with pytest.raises(BundleError, match=r"tokenizer\.bin is missing"):
        open_bundle(pair[0])


def test_a_damaged_shared_drafter_is_refused_and_replaced(pair: tuple[Path, Path], tmp_path: Path) -> None:
    place = open_bundle(pair[0]).places.shared
    assert place is not None
    file = place / "cpu/model.onnx.data"
    file.write_bytes(bytes(len(file.read_bytes())))
    with pytest.raises(BundleError) as refused:
        open_bundle(pair[0])
    assert refused.value.fault == "checksum"
    share_drafter(packable(tmp_path / "c", b"target c"))
    assert [open_bundle(tmp_path / name).places.shared for name in "abc"] == [place] * 3


@pytest.mark.parametrize("level", ["drafters", "address", "cpu"])
def test_links_to_a_shared_drafter_are_refused(level: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    place = open_bundle(pair[0]).places.shared
    assert place is not None
    linked = {"drafters": place.parent, "address": place, "cpu": place / "cpu"}[level]
    linked.rename(tmp_path / "moved")
    linked.symlink_to(tmp_path / "moved")
    with pytest.raises(BundleError, match="is a link") as refused:
        open_bundle(pair[0])
    assert refused.value.fault == "outside"


def test_what_nobody_uses_can_be_told(pair: tuple[Path, Path]) -> None:
    place = open_bundle(pair[0]).places.shared
    assert place is not None
    (pair[0] / MANIFEST).write_bytes(b"{}")
    assert users_of(place).bundles == ["b"] and users_of(place).unknown == ["a"]
    for bundle in pair:
        shutil.rmtree(bundle)
    assert users_of(place).bundles == users_of(place).unknown == []


def test_a_bundle_that_shares_is_packed_like_a_whole_one(pair: tuple[Path, Path], tmp_path: Path) -> None:
    whole = packable(tmp_path / "elsewhere/a", b"target a")
    files = []
    for number, bundle in enumerate((pair[0], whole)):
        archive = pack(bundle, tmp_path / f"{number}.zip", PackOptions("android-qnn")).path
        files.append(archive.read_bytes())
        assert set(open_archive(archive).files) == NEEDS["android-qnn"]
    assert files[0] == files[1]
    unpacked = unpack(open_archive(tmp_path / "0.zip"), tmp_path / "phone/a")
    with pytest.raises(ArchiveError, match="was packed for android-qnn"):
        share_drafter(unpacked)


def test_a_link_to_a_bundle_finds_its_drafter(pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links/a"
    link.symlink_to(pair[0])
    assert open_bundle(link).file("drafter/tokenizer.bin").is_file()
