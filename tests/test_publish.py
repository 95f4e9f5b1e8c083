"""Publishing: whoever comes second to a number changes nothing, and nobody sends for another device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.sync import publish
from omnidraft.sync.layout import device_folder, latest_name
from omnidraft.sync.publish import sent_by_devices
from sync_world import PAIR, PUBLIC, fault, folder_store, publish_number, push_number


def test_who_comes_second_to_a_number_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one publishes after this one looked which numbers there are."""
    store = folder_store(tmp_path / "store")
    publish_number(store, 1)
    newest = publish.newest_of(store, PAIR.channel, PUBLIC)
    theirs = publish_number(store, 2)
    pointer = store.read(latest_name(PAIR.channel), 2048)

    def earlier(*_: object) -> Iterator[int]:
        yield 1

    monkeypatch.setattr(publish, "newest_of", lambda *_: newest)
    monkeypatch.setattr(publish, "_numbers", earlier)
    assert fault(lambda: publish_number(store, 3), "somebody published meanwhile") == "taken"
    assert theirs.number == 2 and store.read(latest_name(PAIR.channel), 2048) == pointer


def test_a_record_in_another_devices_folder_is_left_out(tmp_path: Path) -> None:
    """So nobody counts twice by copying what another one sent."""
    store = folder_store(tmp_path / "store")
    push_number(store, tmp_path / "a", 1, "a")
    for file in sorted((tmp_path / "store" / device_folder(PAIR.channel, "a")).iterdir()):
        store.write(f"{device_folder(PAIR.channel, 'b')}/{file.name}", file.read_bytes())
    first, second = sent_by_devices(store, PAIR)
    assert first.refusal is None and first.adapter is not None
    assert second.adapter is None and second.cache is None
    assert "it is of device a; let b push again" in str(second.refusal)
