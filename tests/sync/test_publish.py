"""Publishing: accepted keys alone, one device's share bounded, a trial, and numbers that only grow."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.errors import SettingError
from omnidraft.learning.compare import AdapterComparison
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.sync.average import MOST_NORM, MOST_SHARE, bounded_share, size
from omnidraft.sync.channel import release_name
from omnidraft.sync.publish import (
    MOST_COUNT,
    Mean,
    coarse,
    mean_of,
    memory_beside,
    merged,
    publish,
    read_devices,
    remembered,
    tried,
)
from omnidraft.sync.record import LARGEST
from omnidraft.sync.store import Store
from support.adapters import adapter
from support.sync_world import (
    CHANNEL,
    KEY,
    OTHER_KEY,
    PAIR,
    PUBLIC,
    device,
    failure,
    fault,
    listed,
    name_of,
    publish_number,
    pull_into,
    push,
    sent,
)
from support.tables import GRAM_IDS, table


def mean(store: Store, *numbers: int) -> Mean:
    found = mean_of(sent(store, *numbers))
    assert found is not None
    return found


def test_the_mean_is_by_accepted_tokens(store: Store) -> None:
    push(store, 1)
    push(store, 3)
    found = mean(store, 1, 3)
    assert sorted(found.weights.values()) == [1, 3]
    for site, (x, y) in adapter(2, 1).tensors.items():
        x3, y3 = adapter(2, 3).tensors[site]
        a, b = found.adapter.tensors[site]
        whole = 0.25 * x @ y + 0.75 * x3 @ y3
        u, values, v = np.linalg.svd(whole)
        assert a @ b == pytest.approx((u[:, :2] * values[:2]) @ v[:2], abs=1e-4)


def test_keys_that_nobody_accepted_do_not_count_however_many(store: Store) -> None:
    """Names are free and so are keys: one person with six of them is left out six times."""
    for number in range(1, 6):
        push(store, number, accepted=100)
    honest = mean(store, *range(1, 6)).adapter.digest
    for number in range(50, 56):
        push(store, number, 1000.0, accepted=LARGEST)
    everything = sent(store, *range(1, 6))
    assert mean_of(everything).adapter.digest == honest  # type: ignore[union-attr]
    refused = {each.device for each in everything if each.refusal == "its key is not among --devices"}
    assert refused == set(listed(*range(50, 56)))


def test_one_accepted_devices_weight_size_and_rank_are_bounded(folder: Store) -> None:
    for number in (1, 2, 3, 4):
        push(folder, number, accepted=100)
    honest = size(mean(folder, 1, 2, 3, 4).adapter)
    push(folder, 5, 2 * MOST_NORM, accepted=LARGEST, rank=3)
    found = mean(folder, 1, 2, 3, 4, 5)
    assert sorted(found.weights.values()) == [100] * 4 + [100 * MOST_SHARE]
    assert found.adapter.rank <= 3
    usual = sorted(size(adapter(2, number)) for number in (1, 2, 3, 4))[-1]
    share = MOST_SHARE / (4 + MOST_SHARE)
    assert size(found.adapter) <= (1 - share) * max(honest, usual) + share * MOST_NORM * usual * 1.01
    assert bounded_share({"a": 0, "b": 0}) == {"a": 0, "b": 0}
    assert bounded_share({"a": 5, "b": LARGEST}) == {"a": 5, "b": 5 * MOST_SHARE}


@pytest.mark.parametrize("scale", [1e37, 1e19, 1e6, -1e6])
def test_an_absurd_adapter_is_left_out_by_name(folder: Store, scale: float) -> None:
    for number in (1, 2, 3):
        push(folder, number)
    honest = mean(folder, 1, 2, 3).adapter.digest
    push(folder, 4, scale, accepted=1)
    everything = sent(folder, 1, 2, 3, 4)
    found = mean_of(everything)
    assert found is not None and found.adapter.digest == honest
    name = f"phone-4 ({name_of(4)[:12]})"
    assert name in found.left_out or any(each.device == name and each.refusal for each in everything)


def test_a_release_has_no_counts_of_single_devices() -> None:
    first = table(GRAM_IDS[:3], [(777, 5), (3, 3), (1, 0)], [4, 5, 6], tick=99)
    second = table(GRAM_IDS[1:4], [(1000, 999), (2**32 - 1, 0), (9, 9)], [2**32 - 1] * 3, tick=2**32 - 1)
    both = merged([first, second])
    assert both is not None
    assert both.tick == 0 and not both.ticks.any()
    assert (both.accepted <= both.hits).all()
    assert both.hits.tolist() == [512, 512, MOST_COUNT, 8]
    again = merged([first, second], before=both)
    assert again is not None and again.hits.tolist() == both.hits.tolist(), "publishing again adds nothing"
    assert coarse(both).hits.tolist() == both.hits.tolist()
    assert merged([]) is None


def test_the_list_of_devices(tmp_path: Path) -> None:
    file = tmp_path / "devices"
    file.write_text(f"# ours\n{name_of(1)} kitchen\n\n{name_of(2)}\n")
    assert read_devices(file) == {name_of(1): "kitchen", name_of(2): "device"}
    for line in ("kitchen", name_of(1)[:-1], f"{name_of(1)} \x1b[31m", name_of(1).upper()):
        file.write_text(f"{name_of(2)}\n{line}\n")
        with pytest.raises(SettingError, match="line 2 is not a device"):
            read_devices(file)
    with pytest.raises(SettingError, match="cannot be read"):
        read_devices(tmp_path / "absent")


def test_a_worse_adapter_is_not_published() -> None:
    asked: list[Adapter | None] = []

    def trial(current: float, offered: float, generations: int = 20) -> AdapterComparison:
        def compare(before: Adapter | None, _: Adapter) -> AdapterComparison:
            asked.append(before)
            low = offered - current - 0.1 if generations >= 8 else float("-inf")
            return AdapterComparison(generations, 900, current, offered, low, offered - current + 0.1)

        return tried(compare, adapter(2, 1), adapter(2, 2))

    assert trial(0.3, 0.3).is_enough
    assert fault(lambda: trial(0.3, 0.29), "worse than the release before", "0.2900") == "worse"
    assert fault(lambda: trial(0.3, 0.9, 7), "7 recorded generations and 8 are needed") == "too_few"
    assert len(asked) == 3 and asked[0] is not None


def test_numbers_grow_whatever_the_store_says(store: Store, tmp_path: Path) -> None:
    memory = memory_beside(tmp_path / "team.private.pem", CHANNEL)
    assert memory.name == f"team.{CHANNEL.id[:16]}.release"
    first = publish_number(store, 1, memory)
    old = memory.read_bytes()
    second = publish_number(store, 2, memory)
    assert second.record.number > first.record.number
    assert stat.S_IMODE(memory.stat().st_mode) == 0o600
    pull_into(store, tmp_path / "dir")
    store.write(release_name(CHANNEL), old)  # somebody puts the old release back
    assert fault(lambda: pull_into(store, tmp_path / "dir"), "was put back") == "older"
    third = publish_number(store, 3, memory)
    assert third.record.number > second.record.number
    assert pull_into(store, tmp_path / "dir").release == third.record
    assert remembered(memory, PAIR, PUBLIC) == third


def test_a_publisher_that_lost_its_memory_and_its_store_goes_on(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its numbers are times, so devices do not take its next release for an old one."""
    memory = tmp_path / "memory"
    for number in (1, 2, 3):
        publish_number(folder, number, memory)
    seen = pull_into(folder, tmp_path / "dir").release
    memory.unlink()
    (tmp_path / "store" / release_name(CHANNEL)).unlink()
    monkeypatch.setattr("omnidraft.sync.record.time.time", lambda: seen.number + 1.5)
    again = publish_number(folder, 4, memory).record
    assert pull_into(folder, tmp_path / "dir").release == again != seen


def test_a_damaged_or_foreign_memory_is_refused(folder: Store, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    assert remembered(memory, PAIR, PUBLIC) is None
    publish_number(folder, 1, memory, OTHER_KEY)
    assert fault(lambda: remembered(memory, PAIR, PUBLIC), "move it away") == "other_key"
    memory.write_bytes(b"x")
    assert fault(lambda: remembered(memory, PAIR, PUBLIC), "restore it") == "malformed"
    other = replace(CHANNEL, base="9" * 64)
    memory.unlink()
    publish_number(folder, 1, memory, channel=other)
    assert fault(lambda: remembered(memory, PAIR, PUBLIC)) == "foreign"


def test_a_store_that_cannot_be_written_loses_no_number(folder: Store, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    publish_number(folder, 1, memory)
    (tmp_path / "file").write_bytes(b"mine")
    broken = Store(str(tmp_path / "file"), None)
    error = failure(publish_number, broken, 2, memory)
    assert error is not None and error.fault == "unreachable"
    kept = remembered(memory, PAIR, PUBLIC)
    assert kept is not None and publish_number(folder, 3, memory).record.number > kept.record.number
    with pytest.raises(SettingError, match="neither adapters nor caches"):
        publish(folder, CHANNEL, (None, None, 0), KEY, memory)
    assert fault(lambda: publish_number(Store("https://x", None), 4, memory)) == "read_only"
    assert device(1) != KEY
