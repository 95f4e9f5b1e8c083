"""Pushes: one signed file, the key of a device, and every damaged or foreign byte refused in a sentence."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.errors import SettingError, TraceFileError
from omnidraft.runtime.models.adapter_file import write_adapter
from omnidraft.runtime.traces.trace_file import encode as encode_segment
from omnidraft.runtime.vocab.cache_store import write_table
from omnidraft.signing import raw_public
from omnidraft.sync.channel import push_name
from omnidraft.sync.device_key import FILE, device_key
from omnidraft.sync.push import adapter_item, cache_item, trace_items, write_push
from omnidraft.sync.record import MOST_BYTES, Contents, StoredFile, read_signed, write_signed
from omnidraft.sync.store import Store
from support.adapters import adapter
from support.sync_world import CHANNEL, PAIR, cache_of, device, fault, name_of, pair_of, push, push_of, sent
from support.tables import TOY
from support.trace_files import random_segment


def test_a_push_holds_what_was_named_and_nothing_else(tmp_path: Path) -> None:
    write_adapter(tmp_path / "a.safetensors", adapter(2, 1))
    write_table(tmp_path / "c.odc", cache_of(1))
    items = [adapter_item(tmp_path / "a.safetensors", PAIR), cache_item(tmp_path / "c.odc", TOY)]
    data = write_push(items, PAIR, 12, device(1))
    signed = read_signed(data, "push", None)
    assert (signed.adapter, signed.cache, signed.traces) == (items[0].data, items[1].data, ())
    assert (signed.record.key, signed.record.accepted) == (name_of(1), 12)
    assert len(data) == signed.record.size
    alone = read_signed(write_push(items[1:], PAIR, 0, device(1)), "push", None)
    assert (alone.adapter, alone.cache) == (None, items[1].data)
    with pytest.raises(SettingError, match="nothing is to be sent"):
        write_push([], PAIR, 0, device(1))
    assert fault(lambda: trace_items(tmp_path, TOY), "holds no trace") == "not_a_trace"
    assert fault(lambda: pair_of(base=None).channel, "of its drafter") == "no_fingerprint"


def test_every_changed_byte_is_refused() -> None:
    data = push_of(1)
    for at in range(0, len(data), 7):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert fault(partial(read_signed, changed, "push", None))
    for length in (0, 199, 200, 300, len(data) - 1):
        assert fault(partial(read_signed, data[:length], "push", None))
    assert fault(lambda: read_signed(data + b"x", "push", None), "were announced") == "size"
    assert fault(lambda: read_signed(data, "release", None), "not a release") == "other_kind"
    assert fault(lambda: read_signed(data, "push", raw_public(device(2)))) == "other_key"


def test_nobody_signs_for_another_key() -> None:
    """The key in the signed lines is the one whose signature counts."""
    data = push_of(1)
    record = read_signed(data, "push", None).record
    forged = data[:200] + replace(record, key=name_of(2)).text + data[200 + len(record.text) :]
    assert (
        fault(lambda: read_signed(forged, "push", None), "changed after it was signed") == "wrong_signature"
    )


def test_a_push_replaces_the_same_keys_push_alone(store: Store) -> None:
    push(store, 1, accepted=5)
    push(store, 2, accepted=7)
    push(store, 1, accepted=6)
    assert [each.accepted for each in sorted(sent(store, 1, 2), key=lambda each: each.accepted)] == [6, 7]
    assert sorted(store.names(CHANNEL.id)) == sorted(f"{name_of(n)}.push" for n in (1, 2))


def test_a_push_under_another_keys_name_is_left_out(folder: Store) -> None:
    folder.write(push_name(CHANNEL, name_of(2)), push_of(1))
    [one] = sent(folder, 2)
    assert one.adapter is None and "the public key given" in str(one.refusal)


def test_what_is_too_large_is_not_written() -> None:
    contents = Contents(None, None, [bytes(MOST_BYTES)], 0)
    assert fault(lambda: write_signed("push", CHANNEL, contents, device(1))) == "too_large"
    assert fault(lambda: write_signed("push", CHANNEL, Contents(), device(1)), "no files") == "malformed"
    assert StoredFile.of(b"").size == 0


def test_the_devices_key_is_made_once_and_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "state"
    monkeypatch.setenv("OMNIDRAFT_STATE", str(root))
    first = raw_public(device_key())
    assert raw_public(device_key()) == first
    assert stat.S_IMODE((root / FILE).stat().st_mode) == 0o600
    assert os.listdir(root) == [FILE]
    (root / FILE).write_bytes(b"short")
    with pytest.raises(SettingError, match="has 5 bytes where it has 32; delete it"):
        device_key()
    (root / FILE).unlink()
    assert raw_public(device_key()) != first
    root.chmod(0o777)
    with pytest.raises(SettingError, match="not this user's own directory"):
        device_key()


def test_what_a_device_pushes_is_private_in_a_folder(folder: Store, tmp_path: Path) -> None:
    push(folder, 1)
    file = tmp_path / "store" / push_name(CHANNEL, name_of(1))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_training_reads_the_segments_of_a_push(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="training reads traces with fsspec")
    from omnidraft.training.data.trace_source import find_sources

    recorded = [random_segment(np.random.default_rng(seed)) for seed in (1, 2)]
    segments, vocabularies = [encode_segment(each) for each in recorded], recorded[0].header.vocabularies
    data = write_signed("push", CHANNEL, Contents(None, b"grams", segments, 1), device(1))
    file = tmp_path / f"{name_of(1)}.push"
    file.write_bytes(data)
    sources = find_sources([str(file)])
    assert [encode_segment(each.read(vocabularies)) for each in sources] == segments
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(TraceFileError, match="not the segment that the push names"):
        sources[-1].read(vocabularies)
    file.write_bytes(data[:300] + b"x" + data[301:])
    (refused,) = find_sources([str(file)])  # among others it is left out and counted
    with pytest.raises(TraceFileError, match="is refused: it is not a trace"):
        refused.read(vocabularies)
