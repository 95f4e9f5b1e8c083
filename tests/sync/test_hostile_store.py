"""A store that others write to: names with control characters, pipes, links, too many names."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.errors import SettingError, SyncError, shown
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter_file import write_adapter
from omnidraft.sync.channel import push_name, release_name
from omnidraft.sync.installed import POINTER, adapter_in_use, read_installed
from omnidraft.sync.record import MOST_HEAD
from omnidraft.sync.store import Store, open_store
from support.adapters import adapter
from support.command_line import Run
from support.sync_world import CHANNEL, PUBLIC, fault, name_of, publish_number, pull_into, push, sent

ESCAPES = "what\x1b]0;title\x07\x1b[31m\x1b[2K"


def test_no_foreign_text_moves_the_terminal(
    run: Run, bundle: Path, folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names in a store, a bundle's fields, and sentences with them."""
    push(folder, 1)
    for name in (ESCAPES, f"{ESCAPES}.push", ".hidden.push", "x.push"):
        (tmp_path / "store" / CHANNEL.id / name).mkdir()
    assert [each.refusal for each in sent(folder, 1)] == [None]
    error = SyncError(f"of {ESCAPES}\n", ESCAPES)
    assert str(error).isprintable() and error.message.isprintable() and error.remedy.isprintable()
    assert shown("日本語 and Ünïcode") == "日本語 and Ünïcode" and shown("a\nb\u202e") == "a\\nb\\u202e"
    opened = open_bundle(bundle)
    strange = replace(opened, target=replace(opened.target, source=f"[red]{ESCAPES}"))
    monkeypatch.setattr("omnidraft.commands.inspect.inspect_bundle.open_bundle", lambda *_: strange)
    code, out, err = run("inspect", bundle)
    assert code == 0 and not {"\x1b", "\x07"} & set(out + err) and "[red]" in out


def test_pipes_devices_and_directories_stop_nobody(folder: Store, tmp_path: Path) -> None:
    root = tmp_path / "store"
    for number in (1, 2, 3, 4):
        push(folder, number)
    places = [root / push_name(CHANNEL, name_of(number)) for number in (1, 2, 3)]
    for place in places:
        place.unlink()
    os.mkfifo(places[0])
    places[1].mkdir()
    places[2].symlink_to("/dev/zero")
    found = {each.device: each for each in sent(folder, 4)}
    assert found[f"phone-4 ({name_of(4)[:12]})"].refusal is None
    for number in (1, 2, 3):
        assert fault(partial(folder.read, push_name(CHANNEL, name_of(number)), "push", None)) in (
            "unreachable",
            "missing",
        )
    publish_number(folder, 1, tmp_path / "memory")
    into, release = tmp_path / "dir", root / release_name(CHANNEL)
    pull_into(folder, into)
    release.unlink()
    os.mkfifo(release)
    assert fault(lambda: pull_into(folder, into)) == "unreachable"
    (into / POINTER).unlink()
    os.mkfifo(into / POINTER)
    assert fault(lambda: read_installed(into)) == "unreadable"


def test_a_file_without_end_is_not_read_beyond_its_beginning(folder: Store, tmp_path: Path) -> None:
    """A sparse file of 1 TB that is no release, and a release with 1 TB after it."""
    file = tmp_path / "store" / release_name(CHANNEL)
    publish_number(folder, 1, tmp_path / "memory")
    for keeps in (True, False):
        os.truncate(file, 1 << 40)
        assert fault(lambda: pull_into(folder, tmp_path / "dir")) == ("size" if keeps else "malformed")
        os.truncate(file, 0)
    assert MOST_HEAD < 1 << 17


def test_an_adapter_in_use_that_was_rewritten_is_refused(folder: Store, tmp_path: Path) -> None:
    publish_number(folder, 1, tmp_path / "memory")
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


def test_what_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    for address, words in (
        (str(tmp_path / "file"), "is a file and not a store"),
        ("nosuch://x", "is not a store"),
        ("https://user:secret@host/x", "https://host/x was given with a user name"),
    ):
        with pytest.raises(SettingError, match=words):
            open_store(address)
    absent = open_store(str(tmp_path / "absent"))
    assert fault(lambda: absent.read("x", "push", PUBLIC), "there is no store") == "no_store"
    assert absent.names("x") == [] and not (tmp_path / "absent").exists()
