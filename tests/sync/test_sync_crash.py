"""Kill -9 during pushes, publications and pulls: readers see whole files each time, and the next run
continues.

OMNIDRAFT_KILLS sets how many times for each (20; `make crash` takes 200).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.runtime.models.adapter_file import decode_adapter
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.cache_store import read_table
from omnidraft.sync.channel import device_folder
from omnidraft.sync.device_pushes import sent_by_devices
from omnidraft.sync.installed import POINTER, adapter_in_use, read_installed
from omnidraft.sync.publish import latest_release
from omnidraft.sync.record_lines import StoredFile
from support.adapters import adapter
from support.kills import KILLS, kill_once, start_writer
from support.sync_world import PAIR, PUBLIC, cache_of, folder_store, publish_number, pull_into, push_number

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills by POSIX signals")
CHANNEL = PAIR.channel


def seconds(work: Callable[..., object], *arguments: object, **options: object) -> float:
    """The seconds of a call on this machine, so that kills happen during it."""
    started = time.perf_counter()
    work(*arguments, **options)
    return time.perf_counter() - started


def test_killed_amid_a_push_the_store_has_the_old_or_the_new(tmp_path: Path) -> None:
    store = folder_store(tmp_path / "store")
    push_number(store, tmp_path / "own", 0)
    usual = seconds(push_number, store, tmp_path / "own", 1)
    worker, rng, amid = start_writer("push", tmp_path, "sync_crasher.py"), random.Random(0), 0
    try:
        for _ in range(KILLS):
            done = kill_once(worker, rng.uniform(0.0, 2 * usual))
            (sent,) = sent_by_devices(store, PAIR)  # reads and hashes each of its files
            assert sent.refusal is None and sent.push is not None and sent.adapter is not None
            number = sent.push.accepted
            assert number in (done, done + 1)
            assert sent.adapter.digest == adapter(2, number).digest
            assert sent.cache is not None and encode(sent.cache) == encode(cache_of(number))
            amid += len(store.names(device_folder(CHANNEL, "phone"))) != 3
    finally:
        worker.kill()
        worker.communicate()
    assert amid > KILLS // 10, f"{amid} of {KILLS} kills struck amid a push"
    push_number(store, tmp_path / "own", number + 1)
    assert len(store.names(device_folder(CHANNEL, "phone"))) == 3  # no file of an interrupted push is left


def test_killed_amid_a_pull_the_device_has_the_old_or_the_new(tmp_path: Path) -> None:
    store, into, cache = folder_store(tmp_path / "store"), tmp_path / "dir", tmp_path / "mine.odc"
    publish_number(store, 1)
    usual = seconds(pull_into, store, into, cache=cache)
    worker, rng, amid = start_writer("pull", tmp_path, "sync_crasher.py"), random.Random(0), 0
    try:
        for _ in range(KILLS):
            done = kill_once(worker, rng.uniform(0.0, 1.5 * usual))
            newest, state = latest_release(store, CHANNEL, PUBLIC), read_installed(into)
            assert newest is not None and state is not None and state.seen is not None
            assert done <= state.seen.number <= newest.number
            assert state.current is not None  # a release is seen first, and its adapter used after that
            assert state.current.number in (state.seen.number - 1, state.seen.number)
            path = adapter_in_use(into)
            assert path is not None
            data = path.read_bytes()
            assert StoredFile.of(data) == state.current.file and len(decode_adapter(data).tensors) == 2
            read_table(cache)  # whole
            amid += newest.number != state.current.number or len(list(into.iterdir())) != 4
            pulled = pull_into(store, into, cache=cache)  # continues where it stopped
            assert pulled.outcome in ("switched", "newest") and pulled.release == newest
            merged = read_table(cache)
            assert 1 < int(merged.hits.max()) <= newest.number + 1 and not merged.accepted.any()
    finally:
        worker.kill()
        worker.communicate()
    assert amid > KILLS // 10, f"{amid} of {KILLS} kills struck amid a pull"
    state = read_installed(into)
    assert state is not None
    assert {p.name for p in into.iterdir()} == {POINTER, *state.files}
