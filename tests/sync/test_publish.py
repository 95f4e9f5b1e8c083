"""Publishing: releases in order, each whole and of one key, with a cap on the weight of a device."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.runtime.models.adapter_file import decode_adapter
from omnidraft.sync import publish
from omnidraft.sync.channel import (
    device_folder,
    files_folder,
    latest_name,
    release_name,
    releases_folder,
    utc,
)
from omnidraft.sync.device_pushes import sent_by_devices
from omnidraft.sync.publish import KEPT, latest_release
from omnidraft.sync.push import push, push_of
from omnidraft.sync.record_lines import LARGEST
from omnidraft.sync.store import Store
from support.adapters import adapter
from support.sync_world import (
    CHANNEL,
    OTHER_KEY,
    PAIR,
    PUBLIC,
    breaking_store,
    failure,
    fault,
    folder_store,
    in_use,
    items_of,
    publish_number,
    publish_sent,
    pull_into,
    push_number,
)


def test_releases_are_numbered_and_the_last_ones_stay(store: Store) -> None:
    assert latest_release(store, CHANNEL, PUBLIC) is None
    numbers = [publish_number(store, n).number for n in range(KEPT + 3)]
    assert numbers == list(range(1, KEPT + 4))
    newest = latest_release(store, CHANNEL, PUBLIC)
    assert newest is not None and newest.number == KEPT + 3
    assert [int(n) for n in store.names(releases_folder(CHANNEL))] == numbers[3:]
    assert len(store.names(files_folder(CHANNEL))) == 2 * KEPT
    store.delete(latest_name(CHANNEL))
    assert publish_number(store, 0).number == KEPT + 4  # a lost pointer does not start again at 1


def test_publishing_broken_off_at_any_operation_leaves_a_whole_release(tmp_path: Path) -> None:
    place, broken = tmp_path / "store", 0
    publish_number(breaking_store(place, 10**9), 0)
    while True:
        error = failure(publish_number, breaking_store(place, broken), broken + 1)
        if error is None:
            break
        assert error.fault == "unreachable"
        pulled = pull_into(breaking_store(place, 10**9), tmp_path / "dir")
        assert pulled.outcome in ("switched", "newest")
        assert in_use(tmp_path / "dir")
        broken += 1
    assert broken > 8
    pull_into(breaking_store(place, 10**9), tmp_path / "dir")
    assert decode_adapter(in_use(tmp_path / "dir")).digest == adapter(2, broken + 1).digest


def test_only_one_of_two_publishers_gets_a_number(store: Store) -> None:
    publish_number(store, 1)
    name = release_name(CHANNEL, 2)
    store.write(name, b"somebody else's", new=True)
    assert (
        fault(lambda: store.write(name, b"ours", new=True), "another release was published meanwhile")
        == "taken"
    )
    assert publish_number(store, 2).number == 2, "nobody signed what was under that name"


def test_a_device_that_overstates_its_tokens_can_be_capped(folder: Store, tmp_path: Path) -> None:
    push_number(folder, tmp_path / "a", 1, "a")
    items = items_of(tmp_path / "b", 3)
    for name in ("b", "c"):
        push(folder, push_of(items, name, CHANNEL, LARGEST, utc()), items)
    # Their sum is too large for a record and is cut.
    assert publish_sent(folder, rank=4).accepted == LARGEST
    assert pull_into(folder, tmp_path / "dir").outcome == "switched"
    assert publish_sent(folder, rank=4, cap=2).accepted == 5
    pull_into(folder, tmp_path / "dir")
    for site, (x, y) in decode_adapter(in_use(tmp_path / "dir")).tensors.items():
        (x1, y1), (x2, y2) = adapter(2, 1).tensors[site], adapter(2, 3).tensors[site]
        assert x @ y == pytest.approx(0.2 * x1 @ y1 + 0.8 * x2 @ y2, abs=1e-5)


def test_another_keys_release_is_not_followed(folder: Store) -> None:
    publish_number(folder, 1, key=OTHER_KEY)
    assert fault(lambda: publish_number(folder, 2), "not ours", "remove") == "other_key"
    folder.delete(latest_name(CHANNEL))
    assert publish_number(folder, 2).number == 1, "numbers of other keys count nothing"


def test_who_comes_second_to_a_number_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another publisher takes the number after this one has read the list of numbers."""
    store = folder_store(tmp_path / "store")
    publish_number(store, 1)
    newest = publish.newest_of(store, PAIR.channel, PUBLIC)
    theirs = publish_number(store, 2)
    pointer = store.read(latest_name(PAIR.channel), 2048)

    monkeypatch.setattr(publish, "newest_of", lambda *_: newest)
    monkeypatch.setattr(publish, "_signed", lambda *_: {})
    assert fault(lambda: publish_number(store, 3), "another release was published meanwhile") == "taken"
    assert theirs.number == 2 and store.read(latest_name(PAIR.channel), 2048) == pointer


def test_a_record_in_another_devices_folder_is_left_out(tmp_path: Path) -> None:
    """So a device cannot count twice by copying the files of another."""
    store = folder_store(tmp_path / "store")
    push_number(store, tmp_path / "a", 1, "a")
    for file in sorted((tmp_path / "store" / device_folder(PAIR.channel, "a")).iterdir()):
        store.write(f"{device_folder(PAIR.channel, 'b')}/{file.name}", file.read_bytes())
    first, second = sent_by_devices(store, PAIR)
    assert first.refusal is None and first.adapter is not None
    assert second.adapter is None and second.cache is None
    assert "the push is of device a; let b push again" in str(second.refusal)
