"""A store that others write to: names with control characters, pipes, old releases, other devices' names."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.errors import SyncError, shown
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter_file import write_adapter
from omnidraft.sync.channel import (
    device_folder,
    devices_folder,
    files_folder,
    latest_name,
    release_name,
    utc,
)
from omnidraft.sync.device_pushes import sent_by_devices
from omnidraft.sync.installed import POINTER, adapter_in_use, read_installed
from omnidraft.sync.publish import latest_release
from omnidraft.sync.push import check_owner, push_of
from omnidraft.sync.record_lines import LARGEST
from omnidraft.sync.store import Store
from omnidraft.sync.transport.bounded_time import within
from support.adapters import adapter
from support.command_line import Run
from support.sync_world import (
    CHANNEL,
    PAIR,
    PUBLIC,
    everything,
    fault,
    items_of,
    publish_number,
    pull_into,
    push_number,
)

ESCAPES = "what\x1b]0;title\x07\x1b[31m\x1b[2K"


def test_no_foreign_text_moves_the_terminal(
    run: Run, bundle: Path, folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names in a store, a bundle's fields, and sentences with them."""
    push_number(folder, tmp_path / "a", 1, "a")
    (tmp_path / "store" / devices_folder(CHANNEL) / ESCAPES).mkdir()
    (tmp_path / "store" / devices_folder(CHANNEL) / ".hidden").mkdir()
    sent = sent_by_devices(folder, PAIR)
    assert [each.refusal is None for each in sent] == [False, True, False]
    assert all(each.device.isprintable() for each in sent)
    error = SyncError(f"of {ESCAPES}\n", ESCAPES)
    assert str(error).isprintable() and error.message.isprintable() and error.remedy.isprintable()
    assert shown("日本語 and Ünïcode") == "日本語 and Ünïcode" and shown("a\nb\u202e") == "a\\nb\\u202e"
    opened = open_bundle(bundle)
    strange = replace(opened, target=replace(opened.target, source=f"[red]{ESCAPES}"))
    monkeypatch.setattr("omnidraft.commands.inspect.open_bundle", lambda *_: strange)
    code, out, err = run("inspect", bundle)
    assert code == 0 and not {"\x1b", "\x07"} & set(out + err) and "[red]" in out


def test_pipes_and_unreadable_files_stop_nobody(folder: Store, tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b", "c")):
        push_number(folder, tmp_path / name, number + 1, name)
    places = {name: tmp_path / "store" / device_folder(CHANNEL, name) for name in ("a", "b")}
    file = next(places["a"].glob("*.safetensors"))
    file.unlink()
    os.mkfifo(file)
    (places["b"] / "push").unlink()
    os.mkfifo(places["b"] / "push")
    refusals = {each.device: each.refusal for each in within(20.0, lambda: sent_by_devices(folder, PAIR))}
    assert (
        refusals["c"] is None and "no readable" in str(refusals["a"]) and "no readable" in str(refusals["b"])
    )
    publish_number(folder, 1)
    into, latest = tmp_path / "dir", tmp_path / "store" / latest_name(CHANNEL)
    pull_into(folder, into)
    latest.unlink()
    os.mkfifo(latest)
    assert within(20.0, lambda: fault(lambda: pull_into(folder, into))) == "missing"
    (into / POINTER).unlink()
    os.mkfifo(into / POINTER)
    assert within(20.0, lambda: fault(lambda: read_installed(into))) == "unreadable"


def test_an_adapter_in_use_that_was_rewritten_is_refused(folder: Store, tmp_path: Path) -> None:
    publish_number(folder, 1)
    pull_into(folder, tmp_path / "dir")
    file = adapter_in_use(tmp_path / "dir")
    assert file is not None
    write_adapter(file, adapter(2, 9))
    assert fault(lambda: adapter_in_use(tmp_path / "dir"), "sync pull") == "checksum"


def test_a_folder_with_too_many_names_is_refused(folder: Store, tmp_path: Path) -> None:
    place = tmp_path / "store/many"
    place.mkdir(parents=True)
    for number in range((1 << 16) + 1):
        os.mknod(place / str(number))
    assert fault(lambda: folder.names("many"), "more than 65536 names") == "too_large"


def test_what_a_device_pushes_is_private_in_a_folder(folder: Store, tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        push_number(folder, tmp_path, 3)
        publish_number(folder, 3)
    finally:
        os.umask(old)
    root = tmp_path / "store"
    pushed = [file for file in (root / device_folder(CHANNEL, "phone")).iterdir()]
    assert len(pushed) == 3 and {stat.S_IMODE(file.stat().st_mode) for file in pushed} == {0o600}
    assert stat.S_IMODE((root / latest_name(CHANNEL)).stat().st_mode) == 0o644, "for every device"


def test_a_second_device_does_not_replace_the_first_ones_files(folder: Store, tmp_path: Path) -> None:
    push_number(folder, tmp_path / "a", 1)
    items = items_of(tmp_path / "b", 2)
    record = push_of(items, "phone", CHANNEL, 2, utc())
    before = everything(tmp_path / "store")
    assert fault(lambda: check_owner(folder, record, False), "phone", "add --replace") == "taken"
    assert everything(tmp_path / "store") == before
    check_owner(folder, record, True)
    check_owner(folder, push_of(items, "other", CHANNEL, 2, utc()), False)
    check_owner(folder, push_of(items_of(tmp_path / "a", 1), "phone", CHANNEL, 1, utc()), False)  # the same


def test_what_identifies_a_device_is_told_and_can_be_changed(run: Run, bundle: Path, tmp_path: Path) -> None:
    from omnidraft import load

    cache, store = tmp_path / "mine.odc", tmp_path / "store"
    session = load(bundle, cache=cache)
    session.generate("How many legs do 3 cats have?", max_new_tokens=16).finish()
    session.save_cache(cache)
    command = ("sync", "push", bundle, store, "--cache", cache, "--yes")
    code, _, err = run(*command, "--device", "kitchen")
    words = " ".join(err.split())
    assert code == 0 and "identity" in words and "--rename" in words
    assert run(*command, "--device", "kitchen")[0] == 0, "the same files again are no other device's"
    code, out, _ = run(*command, "--rename", "kitchen")
    assert code == 0
    (left,) = (tmp_path / "store").glob("channels/*/devices/*/push")
    assert left.parent.name in out and left.parent.name != "kitchen"


def test_a_release_counts_as_soon_as_it_is_verified(folder: Store, tmp_path: Path) -> None:
    """A store that withholds a file of release 3 cannot offer release 2 after that."""
    into = tmp_path / "dir"
    for number in (1, 2, 3):
        publish_number(folder, number)
    two = folder.read(release_name(CHANNEL, 2), 2048)
    release = latest_release(folder, CHANNEL, PUBLIC)
    assert release is not None and release.adapter is not None
    folder.delete(f"{files_folder(CHANNEL)}/{release.adapter.sha256}.safetensors")
    assert fault(lambda: pull_into(folder, into)) == "missing"
    folder.write(latest_name(CHANNEL), two)
    assert fault(lambda: pull_into(folder, into), "has seen 3") == "older"


def test_a_release_that_nobody_checked_does_not_count_against_signed_ones(
    folder: Store, tmp_path: Path
) -> None:
    into = tmp_path / "dir"
    publish_number(folder, 1)
    record = folder.read(latest_name(CHANNEL), 2048)
    folder.write(latest_name(CHANNEL), record.replace(b"number 1\n", b"number %d\n" % LARGEST))
    assert pull_into(folder, into, public_key=None).release.number == LARGEST
    folder.write(latest_name(CHANNEL), record)
    assert fault(lambda: pull_into(folder, into, public_key=None)) == "older"
    assert pull_into(folder, into).release.number == 1
