"""Releases: each invalid one is refused with its named fault, and a signed one must still fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.errors import AdapterError, CacheFileError
from omnidraft.runtime.models.adapter_file import write_adapter
from omnidraft.runtime.vocab.cache_store import write_table
from omnidraft.signing import raw_public, sign
from omnidraft.sync.channel import files_folder, latest_name
from omnidraft.sync.installed import POINTER, read_installed
from omnidraft.sync.record_lines import StoredFile
from omnidraft.sync.release import Release, decode_release, encode_release
from omnidraft.sync.store import Store
from support.adapters import adapter
from support.sync_world import (
    CHANNEL,
    KEY,
    OTHER_KEY,
    everything,
    fault,
    publish_number,
    pull_into,
)
from support.tables import table


def republished(store: Store, release: Release, **changes: object) -> None:
    """Replace the newest release with a changed one that has a valid signature."""
    changed = replace(release, **changes)  # type: ignore[arg-type]
    store.write(latest_name(CHANNEL), encode_release(changed, sign(changed.text, KEY)))


def test_each_wrong_release_is_refused_by_name_and_changes_nothing(folder: Store, tmp_path: Path) -> None:
    into = tmp_path / "dir"
    fault(lambda: pull_into(folder, into), "there is no store", "check its address")
    (tmp_path / "store").mkdir()
    fault(
        lambda: pull_into(folder, into), "has no release for the pair of models of tiny", "ask its publisher"
    )
    old = publish_number(folder, 1)
    first = folder.read(latest_name(CHANNEL), 2048)
    release = publish_number(folder, 2)
    newest = folder.read(latest_name(CHANNEL), 2048)
    pull_into(folder, into)
    before = everything(into)
    name = latest_name(CHANNEL)

    def refused(data: bytes, *words: str) -> str:
        folder.write(name, data)
        refusal = fault(lambda: pull_into(folder, into), *words)
        now = everything(into)
        if refusal in ("missing", "size"):  # the release itself is verified, so it counts
            now[POINTER] = before[POINTER]
        assert now == before
        return refusal

    def signed(changed: Release) -> bytes:
        return encode_release(changed, sign(changed.text, KEY))

    assert refused(first, "offers release 1 and this device has seen 2") == "older"
    assert refused(signed(replace(release, devices=9)), "under that number") == "conflict"
    nine = replace(release, number=9)
    assert refused(signed(replace(nine, expires="2020-01-01T00:00:00Z")), "2020-01-01", "clock") == "expired"
    assert (
        refused(newest.replace(b"devices 1", b"devices 2"), "changed after it was signed")
        == "wrong_signature"
    )
    assert refused(encode_release(nine, sign(nine.text, OTHER_KEY)), "signed with key") == "other_key"
    assert refused(newest[:-1], "changed after") == "wrong_signature"
    assert refused(newest[:150], "does not begin with a signature") == "malformed"
    assert refused(b"", "does not begin with a signature") == "malformed"
    assert refused(b"x" * 5000, "more than 2048 bytes") == "too_large"
    for field, words in (("base", "drafter's weights"), ("target", "target's weights"),
                         ("draft_tokenizer", "drafter's tokenizer"),
                         ("target_tokenizer", "target's tokenizer")):  # fmt: skip
        foreign = replace(nine, channel=replace(CHANNEL, **{field: "c" * 64}))
        assert refused(signed(foreign), words, "cccccccccccc") == "foreign"
    assert release.adapter is not None
    huge = replace(release.adapter, size=(1 << 28) + 1)
    assert refused(signed(replace(nine, adapter=huge)), "more than 268435456 bytes") == "too_large"
    folder.write(name, newest)
    assert pull_into(folder, into).outcome == "newest"
    lost = StoredFile("f" * 64, 5)
    assert refused(signed(replace(nine, adapter=lost)), "has no readable channels/") == "missing"
    before = everything(into)
    assert refused(signed(nine), "under that number") == "conflict"
    assert old.adapter is not None
    ten = replace(release, number=10)
    longer = replace(old.adapter, size=old.adapter.size + 1)
    assert refused(signed(replace(ten, adapter=longer)), "were announced") == "size"
    before = everything(into)
    assert refused(newest, "this device has seen 10") == "older", "a release counts once it is verified"


def only_seen(into: Path) -> bool:
    """Whether a device remembers a verified release and has nothing of it in use."""
    state = read_installed(into)
    assert state is not None
    return state.seen is not None and state.current is None and state.cache is None


def test_files_that_are_not_what_was_signed_are_refused(folder: Store, tmp_path: Path) -> None:
    into, files = tmp_path / "dir", tmp_path / "store" / files_folder(CHANNEL)
    release = publish_number(folder, 1)
    assert release.adapter is not None
    file = files / f"{release.adapter.sha256}.safetensors"
    good = file.read_bytes()
    for data, name in ((good[:-1], "size"), (good + b"x", "too_large"), (good[:-1] + b"x", "checksum")):
        file.write_bytes(data)
        assert fault(lambda: pull_into(folder, into)) == name
        assert only_seen(into)
    file.write_bytes(good)
    assert pull_into(folder, into).outcome == "switched"


def test_a_signed_release_of_a_wrong_adapter_or_cache_is_refused(folder: Store, tmp_path: Path) -> None:
    """The signer may make mistakes: the files must still fit the models."""
    into, number = tmp_path / "dir", 1
    release = publish_number(folder, 1)
    write_adapter(tmp_path / "x.safetensors", replace(adapter(2, 5), base="9" * 64))
    for path, suffix, field in ((tmp_path / "x.safetensors", ".safetensors", "adapter"),
                                (tmp_path / "y.odc", ".odc", "cache")):  # fmt: skip
        if field == "cache":
            write_table(path, replace(table(), draft_fingerprint="9" * 64))
        data = path.read_bytes()
        file = StoredFile.of(data)
        folder.write(f"{files_folder(CHANNEL)}/{file.sha256}{suffix}", data)
        number += 1
        republished(folder, replace(release, number=number), **{field: file})
        with pytest.raises((AdapterError, CacheFileError)):
            pull_into(folder, into)
        assert only_seen(into)


def test_a_device_that_checked_signatures_goes_on_doing_so(folder: Store, tmp_path: Path) -> None:
    into = tmp_path / "dir"
    publish_number(folder, 1)
    assert pull_into(folder, into, public_key=None).key is None
    assert pull_into(folder, into).outcome == "newest"
    publish_number(folder, 2)
    assert fault(lambda: pull_into(folder, into, public_key=None), "give that public key") == "unsigned"
    assert pull_into(folder, into).outcome == "switched"


def test_the_key_of_a_release_is_that_of_its_signer(folder: Store, tmp_path: Path) -> None:
    publish_number(folder, 1)
    data = folder.read(latest_name(CHANNEL), 2048)
    release, signer = decode_release(data, raw_public(KEY))
    assert signer is not None and len(signer) == 16 and release.number == 1
    assert decode_release(data, None) == (release, None)
