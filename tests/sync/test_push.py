"""Pushes: readers get the files that were sent, no others are sent, and no push is seen half."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.errors import SyncError
from omnidraft.runtime.traces.trace_reader import name_of
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.sync.channel import device_folder
from omnidraft.sync.device_pushes import sent_by_devices
from omnidraft.sync.fetch import fetch
from omnidraft.sync.push import missing, push_of, read_push, withdraw
from omnidraft.sync.push_record import MOST_BYTES, Push, decode_push, encode_push
from omnidraft.sync.record_lines import StoredFile
from omnidraft.sync.store import Store
from support.adapters import adapter
from support.sync_world import (
    CHANNEL,
    PAIR,
    breaking_store,
    cache_of,
    everything,
    failure,
    fault,
    folder_store,
    items_of,
    pair_of,
    publish_sent,
    push_number,
)
from support.trace_files import build


def test_what_was_pushed_is_what_the_training_side_reads(store: Store, tmp_path: Path) -> None:
    done = push_number(store, tmp_path / "a", 3)
    assert (done.sent, done.present) == (2, 0)
    push_number(store, tmp_path / "b", 5, "laptop")
    laptop, phone = sent_by_devices(store, PAIR)
    assert (laptop.device, phone.device) == ("laptop", "phone")
    assert phone.adapter is not None and phone.adapter.digest == adapter(2, 3).digest
    assert phone.cache is not None and encode(phone.cache) == encode(cache_of(3))
    assert phone.push is not None and phone.push.accepted == 3 and phone.refusal is None


def test_a_second_push_sends_only_what_is_missing_and_removes_what_is_past(
    store: Store, tmp_path: Path
) -> None:
    push_number(store, tmp_path, 3)
    done = push_number(store, tmp_path, 3)
    assert (done.sent, done.sent_bytes, done.present) == (0, 0, 2)
    folder = device_folder(CHANNEL, "phone")
    before = store.names(folder)
    push_number(store, tmp_path, 4)
    after = store.names(folder)
    assert len(after) == 3 and set(before) & set(after) == {"push"}
    assert withdraw(store, CHANNEL, "phone") == 3
    assert store.names(folder) == [] and withdraw(store, CHANNEL, "phone") == 0


def test_nothing_but_what_was_named_is_sent(folder: Store, tmp_path: Path) -> None:
    """Byte for byte: the named files, and a record that holds hashes, sizes, a count and a time."""
    (tmp_path / "t").mkdir()
    (tmp_path / "t/trace-0000000001.odt").write_bytes(build())
    items = items_of(tmp_path, 3)
    push_number(folder, tmp_path, 3)
    files = everything(tmp_path / "store")
    record = files.pop(f"{device_folder(CHANNEL, 'phone')}/push").decode()
    assert sorted(files.values()) == sorted(item.data for item in items)
    words = record.split()
    known = {*CHANNEL.__dict__.values(), *(str(i.file).split()[0] for i in items)}
    assert {w for w in words if len(w) == 64} == known
    assert [line.split()[0] for line in record.splitlines()] == [
        "omnidraft.push", "device", "base", "target", "draft_tokenizer", "target_tokenizer", "created",
        "accepted", "adapter", "cache",
    ]  # fmt: skip
    # Traces go only where they are named, and then the record says so.
    push_number(folder, tmp_path, 3, traces=tmp_path / "t")
    assert build() in everything(tmp_path / "store").values()
    push_number(folder, tmp_path, 3)  # and a push without them takes them away
    assert build() not in everything(tmp_path / "store").values()


def test_traces_are_fetched_for_training(store: Store, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/trace-0000000001.odt").write_bytes(build())
    push_number(store, tmp_path, 3, traces=tmp_path / "t")
    push_number(store, tmp_path, 4, "silent")
    assert fetch(store, PAIR, tmp_path / "out") == {"phone": 1}
    assert (tmp_path / "out/phone/trace-0000000001.odt").read_bytes() == build()
    withdraw_files = [n for n in store.names(device_folder(CHANNEL, "phone")) if n.endswith(".odt")]
    store.delete(f"{device_folder(CHANNEL, 'phone')}/{withdraw_files[0]}")
    assert fetch(store, PAIR, tmp_path / "out") == {"phone": 1}  # it is there already
    assert fault(lambda: fetch(store, PAIR, tmp_path / "new")) == "missing"
    fault(lambda: fetch(store, PAIR, tmp_path / "out", ["nobody"]), "nobody sent nothing", "phone, silent")


def test_a_push_broken_off_at_any_operation_is_invisible_and_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "store"
    push_number(breaking_store(place, 10**9), tmp_path, 1)
    broken = 0
    while True:
        whole = breaking_store(place, 10**9)
        old = read_push(whole, CHANNEL, "phone")
        number = 2 + broken
        error = failure(push_number, breaking_store(place, broken), tmp_path, number)
        if error is None:
            break
        assert error.fault == "unreachable"
        (sent,) = sent_by_devices(whole, PAIR)
        assert sent.push is not None and sent.adapter is not None and sent.refusal is None
        assert sent.push == old or sent.push.accepted == number
        assert sent.adapter.digest == adapter(2, sent.push.accepted).digest
        broken += 1
    assert broken > 8
    (sent,) = sent_by_devices(whole, PAIR)
    assert sent.push is not None and sent.push.accepted == number
    # What broken pushes left behind went with the last one.
    assert len(everything(place)) == 3


def test_pushes_of_many_devices_at_once_do_not_clash(folder: Store, tmp_path: Path) -> None:
    names = [f"device-{n}" for n in range(6)]
    works = [
        threading.Thread(target=push_number, args=(folder, tmp_path / name, n, name))
        for n, name in enumerate(names)
    ]
    for work in works:
        work.start()
    for work in works:
        work.join()
    sent = sent_by_devices(folder, PAIR)
    assert [(s.device, s.push and s.push.accepted, s.refusal) for s in sent] == [
        (name, n, None) for n, name in enumerate(names)
    ]


def test_one_spoiled_device_does_not_keep_the_others_out(folder: Store, tmp_path: Path) -> None:
    for n, name in enumerate(("a", "b", "c", "d")):
        push_number(folder, tmp_path / name, n + 1, name)
    places = {name: tmp_path / "store" / device_folder(CHANNEL, name) for name in "abcd"}
    next(places["a"].glob("*.safetensors")).write_bytes(b"x")
    (places["b"] / "push").write_bytes(b"omnidraft.push 1\nnonsense\n")
    next(places["c"].glob("*.odc")).unlink()
    sent = {each.device: each.refusal for each in sent_by_devices(folder, PAIR)}
    assert sent["d"] is None
    assert "has 1 bytes where" in str(sent["a"]) and "not written as" in str(sent["b"])
    assert "has no" in str(sent["c"])
    release = publish_sent(folder)
    assert release.accepted == 4  # of d alone


def test_what_cannot_be_sent_is_refused_in_a_sentence(folder: Store, tmp_path: Path) -> None:
    items = items_of(tmp_path, 1)
    fault(lambda: push_of([], "phone", CHANNEL, 1, "now"), "give --adapter, --cache, --adapted or --traces")
    fault(lambda: push_of(items, "phone", CHANNEL, None, "now"), "--accepted-tokens")
    fault(lambda: push_of(items, "phone", CHANNEL, -1, "now"), "--accepted-tokens -1")
    fault(lambda: push_number(folder, tmp_path, 1, traces=tmp_path), "holds no trace")
    fault(lambda: pair_of(base=None).channel, "does not name the weights of its drafter", "export")
    fault(lambda: pair_of(target=None).channel, "does not name the weights of its target")
    assert missing(folder, push_of(items, "phone", CHANNEL, 1, "now"), items) == items


def test_a_record_has_a_largest_size() -> None:
    """A store that says more is not read through, however well it is written."""
    segment = StoredFile("a" * 64, 1)
    push = Push("phone", CHANNEL, "2026-01-02T03:04:05Z", 1)
    each = len(encode_push(replace(push, traces=((name_of(1), segment),)))) - len(encode_push(push))
    most = (MOST_BYTES - len(encode_push(push))) // each
    traces = tuple((name_of(number), segment) for number in range(1, most + 2))
    largest = replace(push, traces=traces[:most])
    assert decode_push(encode_push(largest)) == largest
    with pytest.raises(SyncError) as caught:
        decode_push(encode_push(replace(push, traces=traces)))
    assert caught.value.fault == "malformed"


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
