"""Push, publish and pull over folders, memory and HTTP: what is taken, what is refused, nothing in halves."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from adapters import adapter
from omnidraft.errors import AdapterError, CacheFileError, SettingError, SyncError
from omnidraft.runtime.adapter import Adapter
from omnidraft.runtime.adapter_file import decode_adapter, read_adapter, write_adapter
from omnidraft.runtime.cache_store import read_table, write_table
from omnidraft.runtime.installed import POINTER, adapter_in_use, install, read_installed, roll_back
from omnidraft.runtime.learner.shadow import Shadow
from omnidraft.runtime.release import LARGEST, Release, StoredFile, decode_release, encode_release
from omnidraft.signing import raw_public, sign
from omnidraft.sync.fetch import fetch
from omnidraft.sync.layout import device_folder, files_folder, latest_name, release_name, releases_folder, utc
from omnidraft.sync.publish import KEPT, latest_release, sent_by_devices
from omnidraft.sync.push import missing, push, push_of, read_push, withdraw
from omnidraft.sync.store import Store, open_store
from sync_world import (
    KEY,
    OTHER_KEY,
    PAIR,
    PUBLIC,
    breaking_store,
    everything,
    failure,
    fault,
    folder_store,
    in_use,
    items_of,
    pair_of,
    publish_number,
    publish_sent,
    pull_into,
    push_number,
)
from tables import GRAM_IDS, table
from trace_files import build

CHANNEL = PAIR.channel
WORSE = Shadow(20, 900, 0.4, 0.3, -0.12, -0.08)
BETTER = Shadow(20, 900, 0.3, 0.4, 0.08, 0.12)
EVEN = Shadow(20, 900, 0.3, 0.31, -0.01, 0.03)
TOO_FEW = Shadow(3, 100, 0.3, 0.4, float("-inf"), float("inf"))


@pytest.fixture(params=["folder", "memory", "other"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """The three ways of writing: a rename, a whole object, a move."""
    if request.param == "folder":
        return folder_store(tmp_path / "store")
    if request.param == "memory":
        return open_store(f"memory://{tmp_path.name}-{os.getpid()}")
    return breaking_store(tmp_path / "store", 10**9)


@pytest.fixture
def folder(tmp_path: Path) -> Store:
    return folder_store(tmp_path / "store")


# Device to store


def test_what_was_pushed_is_what_the_training_side_reads(store: Store, tmp_path: Path) -> None:
    done = push_number(store, tmp_path / "a", 3)
    assert (done.sent, done.present) == (2, 0)
    push_number(store, tmp_path / "b", 5, "laptop")
    laptop, phone = sent_by_devices(store, PAIR)
    assert (laptop.device, phone.device) == ("laptop", "phone")
    assert phone.adapter is not None and phone.adapter.digest == adapter(2, 3).digest
    assert phone.cache is not None and phone.cache.replicas == (4,)
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
    fault(lambda: pair_of(base=None).channel, "which weights its drafter has", "export")
    fault(lambda: pair_of(target=None).channel, "which weights its target has")
    assert missing(folder, push_of(items, "phone", CHANNEL, 1, "now"), items) == items


# Training side


def test_releases_are_numbered_and_the_last_ones_stay(store: Store) -> None:
    assert latest_release(store, CHANNEL, PUBLIC) is None
    numbers = [publish_number(store, n).number for n in range(KEPT + 3)]
    assert numbers == list(range(1, KEPT + 4))
    newest = latest_release(store, CHANNEL, PUBLIC)
    assert newest is not None and newest.number == KEPT + 3
    assert [int(n) for n in store.names(releases_folder(CHANNEL))] == numbers[3:]
    assert len(store.names(files_folder(CHANNEL))) == 2 * KEPT
    store.delete(latest_name(CHANNEL))
    assert publish_number(store, 0).number == KEPT + 4  # a lost pointer does not start anew


def test_publishing_broken_off_at_any_operation_leaves_a_whole_release(tmp_path: Path) -> None:
    place, broken = tmp_path / "store", 0
    publish_number(breaking_store(place, 10**9), 0)
    while True:
        error = failure(publish_number, breaking_store(place, broken), broken + 1)
        if error is None:
            break
        assert error.fault == "unreachable"
        found = pull_into(breaking_store(place, 10**9), tmp_path / "dir")
        assert found.outcome in ("switched", "newest")
        assert in_use(tmp_path / "dir")
        broken += 1
    assert broken > 8
    pull_into(breaking_store(place, 10**9), tmp_path / "dir")
    assert decode_adapter(in_use(tmp_path / "dir")).digest == adapter(2, broken + 1).digest


def test_only_one_of_two_publishers_gets_a_number(store: Store) -> None:
    publish_number(store, 1)
    name = release_name(CHANNEL, 2)
    store.write(name, b"somebody else's", new=True)
    assert fault(lambda: store.write(name, b"ours", new=True), "somebody published meanwhile") == "taken"
    assert publish_number(store, 2).number == 3


def test_a_device_that_overstates_its_tokens_can_be_capped(folder: Store, tmp_path: Path) -> None:
    push_number(folder, tmp_path / "a", 1, "a")
    items = items_of(tmp_path / "b", 3)
    for name in ("b", "c"):
        push(folder, push_of(items, name, CHANNEL, LARGEST, utc()), items)
    # Their sum is no number of a record, and is published all the same.
    assert publish_sent(folder, rank=4).accepted == LARGEST
    assert pull_into(folder, tmp_path / "dir").outcome == "switched"
    assert publish_sent(folder, rank=4, cap=2).accepted == 5
    pull_into(folder, tmp_path / "dir")
    for site, (x, y) in decode_adapter(in_use(tmp_path / "dir")).tensors.items():
        (x1, y1), (x2, y2) = adapter(2, 1).tensors[site], adapter(2, 3).tensors[site]
        assert x @ y == pytest.approx(0.2 * x1 @ y1 + 0.8 * x2 @ y2, abs=1e-5)


def test_another_keys_release_is_not_followed(folder: Store) -> None:
    publish_number(folder, 1, key=OTHER_KEY)
    assert fault(lambda: publish_number(folder, 2), "not ours", "remove") == "other_key"
    folder.delete(latest_name(CHANNEL))
    assert publish_number(folder, 2).number == 2


# Store to device


def test_a_release_is_taken_up_once_and_merged(store: Store, tmp_path: Path) -> None:
    release = publish_number(store, 3)
    into, cache = tmp_path / "dir", tmp_path / "mine.odc"
    write_table(cache, table(GRAM_IDS[:1], {9: [(5, 5)]}, writer=9))
    found = pull_into(store, into, cache=cache)
    assert (found.outcome, found.release, found.learned) == ("switched", release, 3)
    assert decode_adapter(in_use(into)).digest == adapter(2, 3).digest
    mine = read_table(cache)
    assert mine.writer == 9 and mine.targets.tolist() == GRAM_IDS and mine.replicas == (7, 9)
    before, learned = everything(into), cache.read_bytes()
    again = pull_into(store, into, cache=cache)
    assert (again.outcome, again.learned) == ("newest", 0)
    assert everything(into) == before and cache.read_bytes() == learned
    assert pull_into(store, into, cache=tmp_path / "new.odc").learned == 4


def test_the_whole_circle(store: Store, tmp_path: Path) -> None:
    """Two devices push, their mean is published, both take it up; one device then goes back."""
    push_number(store, tmp_path / "a", 1, "a")
    push_number(store, tmp_path / "b", 3, "b")
    publish_sent(store, rank=4)
    for name in ("a", "b"):
        pull_into(store, tmp_path / f"dir-{name}")
        mean = decode_adapter(in_use(tmp_path / f"dir-{name}"))
        for site, (x, y) in mean.tensors.items():
            (x1, y1), (x2, y2) = adapter(2, 1).tensors[site], adapter(2, 3).tensors[site]
            assert x @ y == pytest.approx(0.25 * x1 @ y1 + 0.75 * x2 @ y2, abs=1e-5)
    into = tmp_path / "dir-a"
    assert roll_back(into).current is None
    assert pull_into(store, into).outcome == "refused before"
    assert pull_into(store, into, again=True).outcome == "switched"
    publish_sent(store, rank=1)
    assert pull_into(store, into).outcome == "switched"
    state = roll_back(into)
    assert state.current is not None and state.current.number == 1


def test_shadow_decides_and_the_decision_stands(folder: Store, tmp_path: Path) -> None:
    into, asked = tmp_path / "dir", list[list[str | None]]()

    def trial(found: Shadow) -> Callable[..., Shadow]:
        def compare(*adapters: Adapter | None) -> Shadow:
            asked.append([each.digest if each else None for each in adapters])
            return found

        return compare

    publish_number(folder, 1)
    assert pull_into(folder, into, trial=trial(TOO_FEW)).outcome == "kept"
    assert read_installed(into).refused == 0  # type: ignore[union-attr]
    assert pull_into(folder, into, trial=trial(BETTER)).outcome == "switched"
    for number, found in ((2, WORSE), (3, EVEN)):
        publish_number(folder, number)
        assert pull_into(folder, into, trial=trial(found)).outcome == "kept"
        assert decode_adapter(in_use(into)).digest == adapter(2, 1).digest
    assert pull_into(folder, into, trial=trial(BETTER)).outcome == "refused before"
    assert pull_into(folder, into, trial=trial(BETTER), again=True).outcome == "switched"
    one, three = adapter(2, 1).digest, adapter(2, 3).digest
    assert asked == [[None, one], [None, one], [one, adapter(2, 2).digest], [one, three], [one, three]]


def test_the_devices_own_adapter_is_what_a_release_is_compared_with(folder: Store, tmp_path: Path) -> None:
    own, into = tmp_path / "own.safetensors", tmp_path / "dir"
    write_adapter(own, adapter(2, 77))
    publish_number(folder, 1)
    assert pull_into(folder, into, own=own, trial=lambda *_: WORSE).outcome == "kept"
    assert in_use(into) == own.read_bytes()
    publish_number(folder, 2)
    assert pull_into(folder, into, own=own, trial=lambda *_: BETTER).outcome == "switched"
    assert decode_adapter(in_use(into)).digest == adapter(2, 2).digest
    state = roll_back(into)
    assert state.current is not None and state.current.number == 0
    assert in_use(into) == own.read_bytes()
    publish_number(folder, 77)  # the same as its own
    assert pull_into(folder, into, own=own, trial=lambda *_: WORSE).outcome == "newest"


def republished(store: Store, release: Release, **changes: object) -> None:
    """Put a changed release, rightly signed, where the newest is."""
    changed = replace(release, **changes)  # type: ignore[arg-type]
    store.write(latest_name(CHANNEL), encode_release(changed, sign(changed.text, KEY)))


def test_each_wrong_release_is_refused_by_name_and_changes_nothing(folder: Store, tmp_path: Path) -> None:
    into = tmp_path / "dir"
    fault(lambda: pull_into(folder, into), "has no release for the pair of models of tiny", "ask whoever")
    old = publish_number(folder, 1)
    first = folder.read(latest_name(CHANNEL), 2048)
    release = publish_number(folder, 2)
    newest = folder.read(latest_name(CHANNEL), 2048)
    pull_into(folder, into)
    before = everything(into)
    name = latest_name(CHANNEL)

    def refused(data: bytes, *words: str) -> str:
        folder.write(name, data)
        found = fault(lambda: pull_into(folder, into), *words)
        assert everything(into) == before
        return found

    def signed(changed: Release) -> bytes:
        return encode_release(changed, sign(changed.text, KEY))

    assert refused(first, "offers release 1 and this device has seen 2") == "older"
    assert refused(signed(replace(release, devices=9)), "under that number") == "conflict"
    nine = replace(release, number=9)
    assert refused(signed(replace(nine, expires="2020-01-01T00:00:00Z")), "2020-01-01", "clock") == "expired"
    assert (
        refused(newest.replace(b"devices 1", b"devices 2"), "changed after it was signed")
        == "wrong_signature"
    )
    assert refused(encode_release(nine, sign(nine.text, OTHER_KEY)), "signed with key") == "other_key"
    assert refused(newest[:-1], "changed after") == "wrong_signature"
    assert refused(newest[:150], "does not begin with a signature") == "malformed"
    assert refused(b"", "does not begin with a signature") == "malformed"
    assert refused(b"x" * 5000, "more than 2048 bytes") == "too_large"
    for field, words in (("base", "drafter's weights"), ("target", "target's weights"),
                         ("draft_tokenizer", "drafter's tokenizer"),
                         ("target_tokenizer", "target's tokenizer")):  # fmt: skip
        foreign = replace(nine, channel=replace(CHANNEL, **{field: "c" * 64}))
        assert refused(signed(foreign), words, "cccccccccccc") == "foreign"
    lost = StoredFile("f" * 64, 5)
    assert refused(signed(replace(nine, adapter=lost)), "has no channels/") == "missing"
    assert release.adapter is not None and old.adapter is not None
    longer = replace(old.adapter, size=old.adapter.size + 1)
    assert refused(signed(replace(nine, adapter=longer)), "were announced") == "size"
    huge = replace(release.adapter, size=(1 << 28) + 1)
    assert refused(signed(replace(nine, adapter=huge)), "more than 268435456 bytes") == "too_large"
    folder.write(name, newest)
    assert pull_into(folder, into).outcome == "newest"


def test_files_that_are_not_what_was_signed_are_refused(folder: Store, tmp_path: Path) -> None:
    into, files = tmp_path / "dir", tmp_path / "store" / files_folder(CHANNEL)
    release = publish_number(folder, 1)
    assert release.adapter is not None
    file = files / f"{release.adapter.sha256}.safetensors"
    good = file.read_bytes()
    for data, name in ((good[:-1], "size"), (good + b"x", "too_large"), (good[:-1] + b"x", "checksum")):
        file.write_bytes(data)
        assert fault(lambda: pull_into(folder, into)) == name
        assert read_installed(into) is None
    file.write_bytes(good)
    assert pull_into(folder, into).outcome == "switched"


def test_a_signed_release_of_a_wrong_adapter_or_cache_is_refused(folder: Store, tmp_path: Path) -> None:
    """The signer may be mistaken: what is taken still has to fit the models."""
    into = tmp_path / "dir"
    release = publish_number(folder, 1)
    write_adapter(tmp_path / "x.safetensors", replace(adapter(2, 5), base="9" * 64))
    for path, suffix, field in ((tmp_path / "x.safetensors", ".safetensors", "adapter"),
                                (tmp_path / "y.odc", ".odc", "cache")):  # fmt: skip
        if field == "cache":
            write_table(path, replace(table(), draft_fingerprint="9" * 64))
        data = path.read_bytes()
        file = StoredFile.of(data)
        folder.write(f"{files_folder(CHANNEL)}/{file.sha256}{suffix}", data)
        republished(folder, release, **{field: file})
        with pytest.raises((AdapterError, CacheFileError)):
            pull_into(folder, into)
        assert read_installed(into) is None


def test_a_device_that_checked_signatures_goes_on_doing_so(folder: Store, tmp_path: Path) -> None:
    into = tmp_path / "dir"
    publish_number(folder, 1)
    assert pull_into(folder, into, public_key=None).key is None
    assert pull_into(folder, into).outcome == "newest"
    publish_number(folder, 2)
    assert fault(lambda: pull_into(folder, into, public_key=None), "give that public key") == "unsigned"
    assert pull_into(folder, into).outcome == "switched"


def test_a_full_disk_at_any_write_leaves_what_was_in_use(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into, fsync = tmp_path / "dir", os.fsync
    publish_number(folder, 1)
    pull_into(folder, into)
    publish_number(folder, 2)
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
        assert in_use(into) == before and read_installed(into).seen.number == 1  # type: ignore[union-attr]
        room += 1
    assert room >= 3
    assert decode_adapter(in_use(into)).digest == adapter(2, 2).digest


def test_pulling_broken_off_at_any_operation_changes_nothing(tmp_path: Path) -> None:
    place, into, broken = tmp_path / "store", tmp_path / "dir", 0
    publish_number(breaking_store(place, 10**9), 1)
    pull_into(breaking_store(place, 10**9), into)
    publish_number(breaking_store(place, 10**9), 2)
    before = everything(into)
    while True:
        error = failure(pull_into, breaking_store(place, broken), into)
        if error is None:
            break
        assert error.fault == "unreachable"
        found = everything(into)
        assert {name: found[name] for name in before} == before
        broken += 1
    assert broken >= 3
    assert decode_adapter(in_use(into)).digest == adapter(2, 2).digest


def test_one_pull_at_a_time_into_a_directory(folder: Store, tmp_path: Path) -> None:
    into = tmp_path / "dir"
    publish_number(folder, 1)

    def trial(*_: object) -> Shadow:
        assert fault(lambda: pull_into(folder, into), "another process is pulling") == "in_use"
        return BETTER

    assert pull_into(folder, into, trial=trial).outcome == "switched"


def test_what_is_installed_is_read_totally(folder: Store, tmp_path: Path) -> None:
    into = tmp_path / "dir"
    assert fault(lambda: adapter_in_use(into), "sync pull") == "absent"
    assert fault(lambda: roll_back(tmp_path / "new"), "nothing before it") == "absent"
    publish_number(folder, 1)
    pull_into(folder, into)
    pointer = into / POINTER
    good = pointer.read_bytes()
    state = read_installed(into)
    assert state is not None and state.text == good
    for data in (b"", good[:-1], good + b"\n", good.replace(b"seen 1", b"seen 01"), b"\xff" * 3000):
        pointer.write_bytes(data)
        assert fault(lambda: read_installed(into), "another directory") == "malformed"
    install(into, state)
    other = replace(PAIR, bundle=pair_of(target="8" * 64).bundle)
    publish_number(folder, 1, channel=other.channel)
    assert fault(lambda: pull_other(folder, into, other), "use it with the pair") == "foreign"
    assert state.current is not None
    (into / f"{state.current.file.sha256}.safetensors").unlink()  # gone, so the drafter runs as it is
    assert pull_into(folder, into).outcome in ("switched", "newest")
    assert read_adapter(adapter_in_use(into) or "").digest == adapter(2, 1).digest


def pull_other(store: Store, into: Path, pair: object) -> object:
    from omnidraft.sync.pull import Device, pull

    return pull(store, Device(pair.bundle, pair.vocab_map, into, PUBLIC))  # type: ignore[attr-defined]


# HTTP


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder; what ends in the server's `cut` is sent in halves."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test's output is not a log."""

    def copyfile(self, source: object, outputfile: object) -> None:
        data = source.read()  # type: ignore[attr-defined]
        cut = self.path.endswith(self.server.cut)  # type: ignore[attr-defined]
        outputfile.write(data[: len(data) // 2] if cut else data)  # type: ignore[attr-defined]
        self.close_connection = True


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    (tmp_path / "store").mkdir()
    found = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "store")))
    found.cut = "nothing"  # type: ignore[attr-defined]
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def test_pulling_from_a_web_server(server: ThreadingHTTPServer, folder: Store, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="HTTP needs aiohttp")
    into = tmp_path / "dir"
    web = open_store(f"http://user:secret@127.0.0.1:{server.server_port}/")
    assert "secret" not in web.shown
    web = open_store(f"http://127.0.0.1:{server.server_port}/")
    assert fault(lambda: pull_into(web, into)) == "missing"
    publish_number(folder, 1)
    assert pull_into(web, into).outcome == "switched"
    assert decode_adapter(in_use(into)).digest == adapter(2, 1).digest
    publish_number(folder, 2)
    before = everything(into)
    for cut in (".safetensors", ".odc", "latest"):
        server.cut = cut  # type: ignore[attr-defined]
        with pytest.raises(SyncError):
            pull_into(web, into)
        now = everything(into)
        assert {name: now[name] for name in before} == before
    server.cut = "nothing"  # type: ignore[attr-defined]
    assert pull_into(web, into).outcome == "switched"
    words = "can only be read from"
    assert fault(lambda: push_number(web, tmp_path, 1), words) == "read_only"
    assert fault(lambda: publish_number(web, 3), words) == "read_only"
    port = server.server_port
    server.shutdown()
    server.server_close()
    gone = open_store(f"http://127.0.0.1:{port}/")
    assert fault(lambda: pull_into(gone, into), "cannot be reached", "try again") == "unreachable"


def test_addresses_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is no store"):
        open_store("nosuch://place")
    with pytest.raises(SettingError, match="needs a package that is not installed"):
        open_store("lakefs://place")


def test_the_key_of_a_release_is_that_of_its_signer(folder: Store, tmp_path: Path) -> None:
    publish_number(folder, 1)
    data = folder.read(latest_name(CHANNEL), 2048)
    release, signer = decode_release(data, raw_public(KEY))
    assert signer is not None and len(signer) == 16 and release.number == 1
    assert decode_release(data, None) == (release, None)
