"""What a device sends: half a file is sent again, and what is withdrawn is out of sight at once."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.sync.layout import device_folder
from omnidraft.sync.publish import sent_by_devices
from omnidraft.sync.push import withdraw
from sync_world import PAIR, breaking_store, failure, folder_store, push_number

FOLDER = device_folder(PAIR.channel, "phone")


def test_a_file_that_the_store_has_in_halves_is_sent_again(tmp_path: Path) -> None:
    store = folder_store(tmp_path / "store")
    push_number(store, tmp_path, 3)
    (file,) = (tmp_path / "store" / FOLDER).glob("*.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    done = push_number(store, tmp_path, 3)
    assert (done.sent, done.sent_bytes, done.present) == (1, len(whole), 1)
    assert file.read_bytes() == whole


def test_a_withdrawal_broken_off_at_any_operation_leaves_nothing_that_is_averaged(tmp_path: Path) -> None:
    """All of it is still there, or the record is gone."""
    place, broken = tmp_path / "store", 0
    whole = breaking_store(place, 10**9)
    while True:
        push_number(whole, tmp_path, 3)
        if failure(withdraw, breaking_store(place, broken), PAIR.channel, "phone") is None:
            break
        (sent,) = sent_by_devices(whole, PAIR)
        assert sent.push is None or sent.refusal is None, sent.refusal
        broken += 1
    assert broken >= 3
    assert whole.names(FOLDER) == []
