"""Pulling: a better release is taken once, and after every failure the adapter in use stays."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.errors import CacheFileError
from omnidraft.learning.compare import AdapterComparison
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import decode_adapter, read_adapter, write_adapter
from omnidraft.runtime.vocab.cache_store import read_table, write_table
from omnidraft.sync.channel import release_name
from omnidraft.sync.installed import POINTER, adapter_in_use, install, read_installed, roll_back
from omnidraft.sync.pull import Device, pull
from omnidraft.sync.store import Store
from support.adapters import adapter
from support.sync_world import (
    CHANNEL,
    PUBLIC,
    everything,
    failure,
    fault,
    in_use,
    pair_of,
    publish_number,
    pull_into,
)
from support.tables import GRAM_IDS, table

WORSE = AdapterComparison(20, 900, 0.4, 0.3, -0.12, -0.08)
BETTER = AdapterComparison(20, 900, 0.3, 0.4, 0.08, 0.12)
EVEN = AdapterComparison(20, 900, 0.3, 0.31, -0.01, 0.03)
TOO_FEW = AdapterComparison(3, 100, 0.3, 0.4, float("-inf"), float("inf"))


def test_a_release_is_taken_up_once_and_merged(store: Store, tmp_path: Path) -> None:
    release = publish_number(store, 3, tmp_path / "memory").record
    into, cache = tmp_path / "dir", tmp_path / "mine.odc"
    write_table(cache, table(GRAM_IDS[:1], [(5, 5)]))
    pulled = pull_into(store, into, cache=cache)
    assert (pulled.outcome, pulled.release, pulled.learned) == ("switched", release, 3)
    assert decode_adapter(in_use(into)).digest == adapter(2, 3).digest
    mine = read_table(cache)
    assert mine.targets.tolist() == GRAM_IDS
    assert (mine.hits.tolist(), mine.accepted.tolist()) == ([5, 4, 4, 4], [5, 0, 0, 0])
    before, learned = everything(into), cache.read_bytes()
    again = pull_into(store, into, cache=cache)
    assert (again.outcome, again.learned) == ("newest", 0)
    assert everything(into) == before and cache.read_bytes() == learned
    assert pull_into(store, into, cache=tmp_path / "new.odc").learned == 4


def test_a_cache_that_is_refused_changes_nothing(folder: Store, tmp_path: Path) -> None:
    publish_number(folder, 3, tmp_path / "memory")
    into, cache = tmp_path / "dir", tmp_path / "mine.odc"
    cache.write_bytes(b"no cache")
    with pytest.raises(CacheFileError):
        pull_into(folder, into, cache=cache)
    assert read_installed(into) is None and cache.read_bytes() == b"no cache"


def test_shadow_decides_and_the_decision_stands(folder: Store, tmp_path: Path) -> None:
    into, asked = tmp_path / "dir", list[list[str | None]]()

    def trial(comparison: AdapterComparison) -> Callable[..., AdapterComparison]:
        def compare(*adapters: Adapter | None) -> AdapterComparison:
            asked.append([each.digest if each else None for each in adapters])
            return comparison

        return compare

    publish_number(folder, 1, tmp_path / "memory")
    assert pull_into(folder, into, trial=trial(TOO_FEW)).outcome == "too few recordings"
    assert read_installed(into).refused == 0  # type: ignore[union-attr]
    assert pull_into(folder, into, trial=trial(BETTER)).outcome == "switched"
    for number, comparison in ((2, WORSE), (3, EVEN)):
        publish_number(folder, number, tmp_path / "memory")
        assert pull_into(folder, into, trial=trial(comparison)).outcome == "not better"
        assert decode_adapter(in_use(into)).digest == adapter(2, 1).digest
    assert pull_into(folder, into, trial=trial(BETTER)).outcome == "refused before"
    one, three = adapter(2, 1).digest, adapter(2, 3).digest
    assert asked == [[None, one], [None, one], [one, adapter(2, 2).digest], [one, three]]


def test_the_devices_own_adapter_is_what_a_release_is_compared_with(folder: Store, tmp_path: Path) -> None:
    own, into = tmp_path / "own.safetensors", tmp_path / "dir"
    write_adapter(own, adapter(2, 77))
    publish_number(folder, 1, tmp_path / "memory")
    assert pull_into(folder, into, own=own, trial=lambda *_: WORSE).outcome == "not better"
    assert in_use(into) == own.read_bytes()
    publish_number(folder, 2, tmp_path / "memory")
    assert pull_into(folder, into, own=own, trial=lambda *_: BETTER).outcome == "switched"
    assert decode_adapter(in_use(into)).digest == adapter(2, 2).digest
    asked = list[str]()

    def trial(now: Adapter | None, _: Adapter) -> AdapterComparison:
        asked.append("" if now is None else now.digest)
        return BETTER

    # The release is in use, and the device has learned since: its own adapter is compared nevertheless.
    assert pull_into(folder, into, own=own, trial=trial).outcome == "switched"
    assert asked == [adapter(2, 77).digest]
    assert pull_into(folder, into, trial=trial).outcome == "newest" and len(asked) == 1
    state = roll_back(into)
    assert state.current is not None and state.current.number == 0
    assert in_use(into) == own.read_bytes()
    publish_number(folder, 77, tmp_path / "memory")  # the same as its own
    assert pull_into(folder, into, own=own, trial=lambda *_: WORSE).outcome == "newest"


def test_a_full_disk_at_any_write_leaves_what_was_in_use(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into, fsync = tmp_path / "dir", os.fsync
    publish_number(folder, 1, tmp_path / "memory")
    pull_into(folder, into)
    publish_number(folder, 2, tmp_path / "memory")
    before, room = in_use(into), 0
    while True:
        left = room

        def full(handle: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(handle)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            error = failure(pull_into, folder, into)
        if error is None:
            break
        assert error.fault == "unwritable" and "No space left" in str(error)
        assert in_use(into) == before
        room += 1
    assert room >= 2  # the adapter, and the pointer
    assert decode_adapter(in_use(into)).digest == adapter(2, 2).digest


def test_one_pull_at_a_time_into_a_directory(folder: Store, tmp_path: Path) -> None:
    into = tmp_path / "dir"
    publish_number(folder, 1, tmp_path / "memory")

    def trial(*_: object) -> AdapterComparison:
        assert fault(lambda: pull_into(folder, into), "another process is pulling") == "in_use"
        return BETTER

    assert pull_into(folder, into, trial=trial).outcome == "switched"


def test_what_is_installed_is_read_totally(folder: Store, tmp_path: Path) -> None:
    into = tmp_path / "dir"
    assert fault(lambda: adapter_in_use(into), "sync pull") == "absent"
    assert fault(lambda: roll_back(tmp_path / "new"), "nothing before it") == "absent"
    publish_number(folder, 1, tmp_path / "memory")
    pull_into(folder, into)
    pointer = into / POINTER
    good = pointer.read_bytes()
    state = read_installed(into)
    assert state is not None and state.text == good
    for data in (b"", good[:-1], good + b"\n", good.replace(b"seen 1", b"seen 01"), b"\xff" * 3000):
        pointer.write_bytes(data)
        assert fault(lambda: read_installed(into), "another directory") == "malformed"
    install(into, state)
    release = folder.read(release_name(CHANNEL), "release", PUBLIC)
    other = Device(pair_of(target="8" * 64), into)
    assert fault(lambda: pull(release, other), "use it with the pair") == "foreign"
    assert fault(lambda: pull_into(folder, into, now="2999-01-01T00:00:00Z"), "was valid") == "expired"
    assert state.current is not None
    (
        into / f"{state.current.file.sha256}.safetensors"
    ).unlink()  # without the file the drafter runs without an adapter
    assert pull_into(folder, into).outcome in ("switched", "newest")
    assert read_adapter(adapter_in_use(into) or "").digest == adapter(2, 1).digest


def test_a_directory_holds_what_it_points_to_and_nothing_else(folder: Store, tmp_path: Path) -> None:
    store, into = folder, tmp_path / "dir"
    for number in (1, 2, 3, 4):
        publish_number(store, number, tmp_path / "memory")
        assert pull_into(store, into).outcome == "switched"
        state = read_installed(into)
        assert state is not None
        assert {file.name for file in into.iterdir()} == {POINTER, *state.files}
        assert len(state.files) == min(number, 2)  # the adapter in use, and the one before it
