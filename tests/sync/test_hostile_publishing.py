"""Publishing from a hostile store: numbers, rollbacks, races, and what one device can do to a release."""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.errors import SyncError
from omnidraft.runtime.models.adapter_file import decode_adapter, write_adapter
from omnidraft.sync.average import ABSURD_NORM, MOST_NORM, MOST_SHARE, bounded_norms, bounded_share, size
from omnidraft.sync.channel import (
    channel_folder,
    files_folder,
    latest_name,
    release_name,
    releases_folder,
    utc,
)
from omnidraft.sync.device_pushes import sent_by_devices
from omnidraft.sync.push import adapter_item, push, push_of
from omnidraft.sync.record_lines import LARGEST
from omnidraft.sync.release_contents import MOST_COUNT, coarse, mean_of, merged
from omnidraft.sync.store import Store
from support.adapters import adapter
from support.sync_world import (
    CHANNEL,
    OTHER_KEY,
    PAIR,
    failure,
    fault,
    folder_store,
    in_use,
    publish_number,
    publish_sent,
    pull_into,
)
from support.tables import GRAM_IDS, TOY, table


def test_numbers_that_nobody_signed_count_nothing(folder: Store, tmp_path: Path) -> None:
    """Else anyone who can write could use up all numbers, or make a publisher sign the last one."""
    publish_number(folder, 1)
    for number in (2, 3, LARGEST - 1, LARGEST):
        folder.write(release_name(CHANNEL, number), b"nobody's")
    folder.write(release_name(CHANNEL, 700), folder.read(release_name(CHANNEL, 1), 2048))  # ours, elsewhere
    publish_number(folder, 900, key=OTHER_KEY, channel=replace(CHANNEL, base="9" * 64))
    assert [publish_number(folder, n).number for n in (2, 3)] == [2, 3]
    for number in range(LARGEST - 200, LARGEST):
        folder.write(release_name(CHANNEL, number), b"nobody's")
    release = publish_number(folder, 4, tmp_path / "memory")
    assert release.number == 4
    assert pull_into(folder, tmp_path / "dir").release == release, "its files were not removed"


def test_two_publishers_at_the_same_moment_never_share_a_number(tmp_path: Path) -> None:
    place = tmp_path / "store"
    for number in range(1, 9):
        outcomes: list[object] = []
        ready = threading.Barrier(2)

        def work(content: int, ready: threading.Barrier = ready, outcomes: list[object] = outcomes) -> None:
            ready.wait()
            try:
                outcomes.append(publish_number(folder_store(place), content))
            except SyncError as error:
                outcomes.append(error.fault)

        threads = [threading.Thread(target=work, args=(2 * number + i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        signed = [each for each in outcomes if not isinstance(each, str)]
        numbers = [each.number for each in signed]  # type: ignore[attr-defined]
        assert signed and len(set(numbers)) == len(numbers)
        assert set(outcomes) - set(signed) <= {"taken"}


def test_a_name_is_created_by_one_of_many(tmp_path: Path) -> None:
    store, made = folder_store(tmp_path / "store"), list[bytes]()
    ready = threading.Barrier(8)

    def work(data: bytes) -> None:
        ready.wait()
        error = failure(partial(store.write, "x/y", data, new=True))
        made.append(data if error is None else error.fault.encode())

    threads = [threading.Thread(target=work, args=(bytes([65 + i]) * 1000,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made.sort(key=len)
    assert made[:7] == [b"taken"] * 7 and store.read("x/y", 2000) == made[7] and store.names("x") == ["y"]


def test_a_publisher_notices_a_store_that_was_rolled_back(folder: Store, tmp_path: Path) -> None:
    memory = tmp_path / "team.published"
    for number in (1, 2, 3):
        publish_number(folder, number, memory)
    assert stat.S_IMODE(memory.stat().st_mode) == 0o600
    newest = folder.read(latest_name(CHANNEL), 2048)
    folder.write(latest_name(CHANNEL), folder.read(release_name(CHANNEL, 2), 2048))
    assert fault(lambda: publish_number(folder, 4, memory), "has published 3", "--restore") == "older"
    for name in (latest_name(CHANNEL), *(f"{releases_folder(CHANNEL)}/{n:015d}" for n in (1, 2, 3))):
        folder.delete(name)
    assert fault(lambda: publish_number(folder, 4, memory), "no release") == "older"
    folder.write(latest_name(CHANNEL), newest)
    assert publish_number(folder, 4, memory).number == 4
    folder.delete(latest_name(CHANNEL))
    assert publish_number(folder, 5, memory, restore=True).number == 5
    # Another machine with the same key, whose memory ends at 4, took the same number for something else.
    other = tmp_path / "other.published"
    other.write_bytes(memory.read_bytes())
    folder.write(latest_name(CHANNEL), folder.read(release_name(CHANNEL, 4), 2048))
    folder.delete(release_name(CHANNEL, 5))
    publish_number(folder, 6)
    assert fault(lambda: publish_number(folder, 7, other), "is not the one") == "conflict"
    assert publish_number(folder_store(tmp_path / "second"), 1, memory).number == 1, "another store"
    memory.write_bytes(b"omnidraft.published 1\nx\n")
    assert fault(lambda: publish_number(folder, 7, memory), "--restore") == "malformed"


def test_leftovers_of_a_killed_publisher_are_removed(folder: Store, tmp_path: Path) -> None:
    publish_number(folder, 1)
    root = tmp_path / "store"
    folders = channel_folder(CHANNEL), releases_folder(CHANNEL), files_folder(CHANNEL)
    left = [root / name / f".000000000000001.{'0' * 16}.tmp" for name in folders]
    fresh = root / files_folder(CHANNEL) / f".new.{'1' * 16}.tmp"
    for file in (*left, fresh):
        file.write_bytes(b"half")
    for file in left:
        os.utime(file, (0, 0))
    publish_number(folder, 2)
    assert not any(file.exists() for file in left) and fresh.exists(), "a fresh one may be another writer's"


def pushed(
    store: Store,
    place: Path,
    name: str,
    scale: float = 1.0,
    accepted: int = 100,
    rank: int = 2,
) -> None:
    """Push an adapter of a device, multiplied by a factor."""
    place.mkdir(exist_ok=True)
    plain = adapter(rank, 3)
    tensors = {site: (a, (b * scale).astype(np.float32)) for site, (a, b) in plain.tensors.items()}
    file = place / f"{name}.safetensors"
    write_adapter(file, replace(plain, tensors=tensors))
    items = [adapter_item(file, PAIR.bundle, TOY)]
    push(store, push_of(items, name, CHANNEL, accepted, utc()), items)


def mean_size(store: Store) -> float:
    mean = mean_of(sent_by_devices(store, PAIR), None)
    assert mean is not None
    return size(mean.averaged.adapter)


@pytest.mark.parametrize("scale", [3e38, 1e19, 1e6, -1e6])
def test_a_poisoned_adapter_is_left_out_by_name(folder: Store, tmp_path: Path, scale: float) -> None:
    for name in ("a", "b", "c"):
        pushed(folder, tmp_path / "own", name)
    honest = mean_size(folder)
    # A product that is as large as that, in float32 numbers.
    pushed(folder, tmp_path / "own", "evil", min(abs(scale), 1e37) * np.sign(scale), accepted=1)
    sent = {each.device: each for each in sent_by_devices(folder, PAIR)}
    mean = mean_of(list(sent.values()), None)
    assert mean is not None
    assert sent["evil"].refusal is not None or "evil" in mean.left_out
    assert mean_size(folder) == pytest.approx(honest)
    assert publish_sent(folder).devices == 4
    assert np.isfinite(size(decode_adapter(pulled_adapter(folder, tmp_path / "dir"))))


def pulled_adapter(store: Store, into: Path) -> bytes:
    pull_into(store, into)
    return in_use(into)


def test_one_devices_weight_and_size_are_bounded(folder: Store, tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        pushed(folder, tmp_path / "own", name)
    honest = mean_size(folder)
    pushed(folder, tmp_path / "own", "evil", 1.01 * MOST_NORM * 2, accepted=LARGEST)
    mean = mean_of(sent_by_devices(folder, PAIR), None)
    assert mean is not None and mean.weights == {**dict.fromkeys("abcd", 100), "evil": 100 * MOST_SHARE}
    share = MOST_SHARE / (4 + MOST_SHARE)
    assert mean_size(folder) <= (1 - share) * honest + share * MOST_NORM * honest * 1.001
    assert bounded_share({"a": 0, "b": 0}) == {"a": 0, "b": 0}
    assert bounded_share({"a": 5, "b": LARGEST}) == {"a": 5, "b": 5 * MOST_SHARE}
    adapters = {name: adapter(2, 3) for name in "abc"}
    assert bounded_norms(adapters) == (adapters, {}) and ABSURD_NORM > MOST_NORM


def test_one_devices_rank_is_bounded(folder: Store, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        pushed(folder, tmp_path / "own", name, accepted=100)
    pushed(folder, tmp_path / "own", "evil", accepted=1, rank=3)
    sent = sent_by_devices(folder, PAIR)
    mean, asked = mean_of(sent, None), mean_of(sent, 3)
    assert mean is not None and mean.averaged.adapter.rank == 2
    assert asked is not None and asked.averaged.adapter.rank == 3


def test_a_release_has_no_counts_of_single_devices() -> None:
    first = table(GRAM_IDS[:3], [(777, 5), (3, 3), (1, 0)], [4, 5, 6], tick=99)
    second = table(GRAM_IDS[1:4], [(1000, 999), (2**32 - 1, 0), (9, 9)], [2**32 - 1] * 3, tick=2**32 - 1)
    both = merged([first, second])
    assert both is not None
    counts = [*both.hits.tolist(), *both.accepted.tolist()]
    assert all(count & (count - 1) == 0 for count in counts) and max(counts) == MOST_COUNT
    assert both.tick == 0 and not both.ticks.any()
    assert (both.accepted <= both.hits).all()
    assert both.hits.tolist() == [512, 512, MOST_COUNT, 8]
    again = merged([first, second], before=both)
    assert again is not None and again.hits.tolist() == both.hits.tolist(), "publishing again adds nothing"
    assert coarse(both).hits.tolist() == both.hits.tolist()
    assert merged([]) is None


def test_a_publisher_that_lost_its_memory_and_its_store_goes_on_where_its_devices_are(
    folder: Store, tmp_path: Path
) -> None:
    memory = tmp_path / "team.published"
    for number in range(1, 8):
        publish_number(folder, number, memory)
    pull_into(folder, tmp_path / "dir")
    memory.unlink()
    for name in (latest_name(CHANNEL), *(release_name(CHANNEL, n) for n in range(1, 8))):
        folder.delete(name)
    assert publish_number(folder, 8, memory).number == 1
    told = "has seen 7: an old release was put back, or the publisher began again", "publish --after 7"
    assert fault(lambda: pull_into(folder, tmp_path / "dir"), *told) == "older"
    release = publish_number(folder, 9, memory, after=7)
    assert release.number == 8
    assert pull_into(folder, tmp_path / "dir").release == release
    assert publish_number(folder, 10, memory, after=3).number == 9, "a number that is known is passed"
    assert fault(lambda: publish_number(folder, 11, memory, after=LARGEST), "last number") == "taken"
