"""Traces on disk: bounded, private, claimed by one, killed at any moment, wiped without a loss to others."""

from __future__ import annotations

import errno
import os
import random
import shutil
import stat
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from omnidraft import TraceStore, read_traces
from omnidraft.errors import SettingError, TraceFileError
from omnidraft.runtime.traces.trace import Start, Vocabularies, window
from omnidraft.runtime.traces.trace_directory import wipe
from omnidraft.runtime.traces.trace_file import decode
from omnidraft.runtime.traces.trace_reader import read_segments, segments_of
from omnidraft.runtime.traces.trace_store import LEAST_BYTES, SEGMENTS, SegmentPlace
from support.crash_writer import numbered_round
from support.kills import KILLS, kill_once, start_writer
from support.trace_files import build

PAIR = Vocabularies("d" * 64, "e" * 64, 4000, 60_000)


def open_store(path: Path, max_bytes: int = LEAST_BYTES) -> TraceStore:
    return TraceStore(path, PAIR, max_bytes=max_bytes)


def record(store: TraceStore, first: int, count: int, at: SegmentPlace | None = None) -> SegmentPlace | None:
    for number in range(first, first + count):
        text = [7] * 2 * number
        begun = Start(None, None, "trie", False, *window(text))
        at = store.append(numbered_round(number), lambda begun=begun: begun, at)  # type: ignore[misc]
    return at


def numbers(path: Path) -> list[int]:
    return [each.tokens[0].token_id for traced in read_traces(path, PAIR) for each in traced.rounds]


def refusal(path: Path, pair: Vocabularies = PAIR) -> TraceFileError:
    with pytest.raises(TraceFileError) as caught:
        TraceStore(path, pair)
    assert str(path) in str(caught.value)
    return caught.value


def test_rounds_come_back_in_order_and_records_are_told_apart(tmp_path: Path) -> None:
    store = open_store(tmp_path / "t")
    record(store, 1, 5)
    record(store, 6, 3)
    assert [len(traced.rounds) for traced in read_traces(tmp_path / "t")] == [5, 3]
    assert numbers(tmp_path / "t") == [1, 2, 3, 4, 5, 6, 7, 8]
    store.close()
    assert record(store, 9, 1) is None  # closed
    again = open_store(tmp_path / "t")  # goes on with the same file
    record(again, 9, 1)
    assert numbers(tmp_path / "t") == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert len(segments_of(tmp_path / "t")) == 1


def test_the_ring_keeps_its_bound_and_the_latest(tmp_path: Path) -> None:
    path = tmp_path / "t"
    store, at, last = open_store(path), None, 0
    for _ in range(60):
        at = record(store, last + 1, 200, at)
        last += 200
        sizes = [p.stat().st_size for p in segments_of(path)]
        assert sum(sizes) <= LEAST_BYTES and max(sizes) <= LEAST_BYTES // SEGMENTS
    recorded = numbers(path)
    assert recorded[0] > 1, "nothing was dropped"
    assert recorded == list(range(recorded[0], last + 1))
    assert sum(sizes) > LEAST_BYTES * 3 // 4
    # Each segment can be read alone, and says that its first record goes on.
    for file, segment in read_segments(path):
        assert all(traced.start.continues for traced in segment.generations()) == (recorded[0] > 1)
        assert len(list(read_traces(file, PAIR))) == 1
    parts = [traced.start.skipped + len(traced.start.context) for traced in read_traces(path)]
    assert all(a < b for a, b in pairwise(parts))


def test_a_torn_tail_stays_and_recording_goes_on_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    store = open_store(path)
    record(store, 1, 4)
    store.close()
    (file,) = segments_of(path)
    torn = file.read_bytes()[:-5]
    file.write_bytes(torn)
    again = open_store(path)
    record(again, 9, 1)
    assert numbers(path) == [1, 2, 3, 9]
    assert file.read_bytes() == torn, "what was there was changed"
    assert [segment.torn > 0 for _, segment in read_segments(path)] == [True, False]


def test_a_damaged_file_is_refused_by_name_and_recording_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "t"
    store = open_store(path)
    record(store, 1, 4)
    store.close()
    (file,) = segments_of(path)
    data = bytearray(file.read_bytes())
    data[150] ^= 1
    file.write_bytes(data)
    record(open_store(path), 9, 1)
    with pytest.raises(TraceFileError, match="damaged") as caught:
        numbers(path)
    assert caught.value.fault == "checksum" and file.name in str(caught.value)
    assert numbers(segments_of(path)[1]) == [9]


def test_a_place_in_use_is_refused_and_two_stores_need_two_places(tmp_path: Path) -> None:
    store = open_store(tmp_path / "t")
    record(store, 1, 1)
    assert refusal(tmp_path / "t").fault == "in_use"
    with pytest.raises(TraceFileError, match="is recording") as caught:
        wipe(tmp_path / "t")
    assert caught.value.fault == "in_use"
    store.close()
    open_store(tmp_path / "t")


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        record(open_store(tmp_path / "t"), 1, 1)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o700
    (file,) = segments_of(tmp_path / "t")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_wiping_takes_segments_only(tmp_path: Path) -> None:
    path = tmp_path / "t"
    store = open_store(path)
    record(store, 1, 3)
    others = {"notes.txt": b"mine", "trace-0000000009.odt": b"no trace", "other.odt": build()}
    for name, data in others.items():
        (path / name).write_bytes(data)
    assert store.wipe() == 1  # while it records, and it goes on
    record(store, 4, 1)
    # A number behind that of the file that is none of ours.
    assert [p.name for p in segments_of(path)] == ["trace-0000000009.odt", "trace-0000000010.odt"]
    store.close()
    assert wipe(path) == 1
    assert {p.name: p.read_bytes() for p in path.iterdir()} == others
    with pytest.raises(TraceFileError, match="holds no trace") as caught:
        wipe(path)
    assert caught.value.fault == "not_a_trace"
    record(open_store(tmp_path / "u"), 1, 1)
    assert wipe(segments_of(tmp_path / "u")[0]) == 1
    with pytest.raises(TraceFileError, match="is not a trace"):
        wipe(path / "notes.txt")
    record(store := open_store(tmp_path / "v"), 1, 1)
    store.close()
    wipe(tmp_path / "v")
    assert not (tmp_path / "v").exists()


def test_other_vocabularies_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    store = open_store(path)
    record(store, 1, 1)
    store.close()
    for other in (
        replace(PAIR, draft_fingerprint="a" * 64),
        replace(PAIR, target_fingerprint="a" * 64),
        replace(PAIR, target_size=9),
    ):
        error = refusal(path, other)
        assert error.fault == "foreign_vocabulary" and "choose another place" in str(error)
        with pytest.raises(TraceFileError, match="use it with the pair of models") as caught:
            list(read_traces(path, other))
        assert caught.value.fault == "foreign_vocabulary"
    assert numbers(path) == [1]


def test_places_that_cannot_be_recorded_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    for place in (tmp_path / "file", tmp_path / "no" / "where"):
        assert refusal(place).fault == "unwritable"
    assert f"no directory {tmp_path / 'no'}: make it first" in str(refusal(tmp_path / "no" / "where"))
    assert (tmp_path / "file").read_bytes() == b"mine"
    with pytest.raises(SettingError, match="max_bytes 5"):
        TraceStore(tmp_path / "t", PAIR, max_bytes=5)
    for place in (tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(TraceFileError):
            list(read_traces(place))


def test_a_full_disk_ends_the_recording_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    store = open_store(path)
    at = record(store, 1, 3)
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:20]))
    assert record(store, 4, 1, at) is None
    monkeypatch.undo()
    assert store.problem is not None and "recording stopped" in store.problem
    assert not store.is_recording
    assert numbers(path) == [1, 2, 3]
    assert [segment.torn for _, segment in read_segments(path)] == [0]  # cut off again

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    other = open_store(tmp_path / "u")
    record(other, 1, 1)
    monkeypatch.setattr(os, "fsync", fail)
    other.sync()
    assert other.problem is not None and "broken" in other.problem


@pytest.mark.skipif(os.name == "nt", reason="Windows deletes no file that is open")
def test_a_deleted_directory_ends_the_recording(tmp_path: Path) -> None:
    store = open_store(tmp_path / "t")
    record(store, 1, 3)
    shutil.rmtree(tmp_path / "t")
    store.sync()
    assert store.problem is not None and "it was deleted" in store.problem and not store.is_recording


def test_rounds_are_flushed_at_the_end_and_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "t")
    at = record(store, 1, 1)
    store.sync()
    flushed: list[int] = []
    fsync = os.fsync

    def note(handle: int) -> None:
        flushed.append(handle)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    record(store, 2, 64, at)
    assert len(flushed) == 2
    store.sync()
    assert len(flushed) == 2  # nothing new
    record(store, 70, 1)
    store.sync()
    assert len(flushed) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills by POSIX signals")
def test_killed_at_any_moment_nothing_recorded_is_lost(tmp_path: Path) -> None:
    """Only the round that was being written is not there, and the next process goes on."""
    path = tmp_path / "t"
    rng = random.Random(0)
    writer = start_writer("trace", path)
    last, recorded = 0, [0]
    try:
        for kill in range(20 * KILLS):
            if kill >= KILLS and recorded[0] > 1:
                break
            done = kill_once(writer, rng.uniform(0.0, 0.02))
            assert done > last
            recorded = numbers(path)
            last = recorded[-1]
            assert last in (done, done + 1)
            assert recorded == list(range(recorded[0], last + 1)), "a round is missing"
            assert sum(p.stat().st_size for p in segments_of(path)) <= LEAST_BYTES
            for file in segments_of(path):
                assert decode(file.read_bytes()).torn <= 70_000
    finally:
        writer.kill()
        writer.communicate()
    assert recorded[0] > 1, "the ring never turned"
