"""Kill -9 during publications and pulls: readers see whole files each time, and the next run continues.

OMNIDRAFT_KILLS sets how many times (20; `make crash` takes 200).
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.runtime.models.adapter_file import decode_adapter
from omnidraft.runtime.vocab.cache_store import read_table
from omnidraft.sync.installed import POINTER, read_installed
from omnidraft.sync.publish import remembered
from omnidraft.sync.record import StoredFile, release_name
from support.kills import KILLS, kill_once, start_writer
from support.sync_world import CHANNEL, PAIR, PUBLIC, folder_store, in_use, publish_number, pull_into

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills by POSIX signals")


def test_killed_amid_a_pull_the_device_has_the_old_or_the_new(tmp_path: Path) -> None:
    store, into, cache = folder_store(tmp_path / "store"), tmp_path / "dir", tmp_path / "mine.odc"
    memory = tmp_path / "memory"
    publish_number(store, 1, memory)
    started = time.perf_counter()
    pull_into(store, into, cache=cache)
    usual = time.perf_counter() - started
    worker, rng, amid = start_writer("pull", tmp_path), random.Random(0), 0
    try:
        for kill in range(20 * KILLS):
            if kill >= KILLS and amid > KILLS // 10:
                break
            done = kill_once(worker, rng.uniform(0.0, 3 * usual))
            newest = store.read(release_name(CHANNEL), "release", PUBLIC).record
            own, state = remembered(memory, PAIR, PUBLIC), read_installed(into)
            assert own is not None and state is not None and state.seen is not None
            assert done <= state.seen.number <= newest.number <= own.record.number
            assert state.current is not None and state.current.number == state.seen.number
            data = in_use(into)
            assert StoredFile.of(data) == state.current.file and len(decode_adapter(data).tensors) == 2
            read_table(cache)  # whole
            amid += newest.number != state.current.number or len(list(into.iterdir())) != 3
            pulled = pull_into(store, into, cache=cache)  # continues where it stopped
            assert pulled.outcome in ("switched", "newest") and pulled.release == newest
    finally:
        worker.kill()
        worker.communicate()
    assert amid > KILLS // 10, f"{amid} of {kill + 1} kills struck amid a publication or a pull"
    state = read_installed(into)
    assert state is not None and {p.name for p in into.iterdir()} == {POINTER, *state.files}
