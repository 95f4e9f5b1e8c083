"""Runners of `sync/...`: releases, pushes and pulls with their faults, and figures of the comparison."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conformance.files.run_adapter import entry_of
from conformance.vectors import Vector, close, map_of
from omnidraft.errors import OmnidraftError, SyncError
from omnidraft.learning.compare import interval, overlaps, probabilities
from omnidraft.learning.positions.alignment import SparseDistributions
from omnidraft.runtime.bundle.signature import encode
from omnidraft.signing import sign
from omnidraft.sync.channel import Channel, ChannelPair
from omnidraft.sync.installed import Seen, read_installed
from omnidraft.sync.pull import Device, pull
from omnidraft.sync.record import Signed, SignedRecord, StoredFile, check_current, read_signed


def run_record(vector: Vector) -> None:
    pytest.importorskip("cryptography", reason="signatures need the package cryptography")
    given, expect = vector["input"], vector["expect"]
    channel = Channel(**given["channel"])
    if "seed" in given:
        _check_written(given, channel, expect)
        return
    data = bytes.fromhex(given["file"])
    public = None if given["public_key"] is None else bytes.fromhex(given["public_key"])

    def read() -> Signed:
        signed = read_signed(data, given["kind"], public)
        channel.check(signed.record.channel, "it")
        if given["seen"] is not None:
            Seen(**given["seen"]).check(signed.record)
        check_current(signed.record, channel, given["now"])
        return signed

    if expect["fault"] is not None:
        with pytest.raises(SyncError) as refused:
            read()
        assert refused.value.fault == expect["fault"], json.dumps(vector)
        assert str(refused.value)
        return
    signed = read()
    parts = [each for each in (signed.adapter, signed.cache, *signed.traces) if each is not None]
    assert data[:200] + signed.record.text + b"".join(parts) == data


def _check_written(given: dict[str, Any], channel: Channel, expect: dict[str, Any]) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(given["seed"]))
    adapter, cache = (None if given[n] is None else bytes.fromhex(given[n]) for n in ("adapter", "cache"))
    traces = [bytes.fromhex(each) for each in given["traces"]]
    record = SignedRecord(
        given["kind"], key.public_key().public_bytes_raw().hex(), channel, given["number"], given["expires"],
        given["accepted"], None if adapter is None else StoredFile.of(adapter),
        None if cache is None else StoredFile.of(cache), tuple(StoredFile.of(each) for each in traces),
    )  # fmt: skip
    assert channel.id == expect["channel_id"]
    data = encode(sign(record.text, key)) + record.text + b"".join([adapter or b"", cache or b"", *traces])
    assert data == bytes.fromhex(expect["file"])


def run_compare(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    if "counts" in given:
        low, high = interval(np.array(given["differences"]), np.array(given["counts"], dtype=np.float64))
        if expect["low"] is None:
            assert (low, high) == (-np.inf, np.inf)
        else:
            assert close([low, high], [expect["low"], expect["high"]])
        return
    q = probabilities(np.array([given["logits"]]), np.array(given["allowed"], dtype=np.bool_))
    distributions = SparseDistributions(
        np.zeros(1, np.int64), np.array([given["ids"]], np.int32), np.array([given["probabilities"]]),
        np.array([given["other"]]), np.array([given["weight"]]),
    )  # fmt: skip
    acceptance = overlaps(q, distributions, np.array([0]), np.array([given["inside"]]))
    assert close(acceptance, [expect["acceptance"]])


def run_pull(vector: Vector) -> None:
    pytest.importorskip("cryptography", reason="signatures need the package cryptography")
    given, expect = vector["input"], vector["expect"]
    with tempfile.TemporaryDirectory() as name:
        device = _device(given, Path(name) / "device")

        def take() -> None:
            signed = read_signed(bytes.fromhex(given["file"]), "release", bytes.fromhex(given["public_key"]))
            pull(signed, device, given["now"])

        if expect["fault"] is not None:
            with pytest.raises(OmnidraftError) as refused:
                take()
            assert refused.value.fault == expect["fault"], str(refused.value)
        else:
            take()
            installed = read_installed(device.into)
            assert installed is not None
            held = {file.name for file in device.into.iterdir()}
            assert held - installed.files == {"current"}
        pointer = device.into / "current"
        assert (pointer.read_text("ascii") if pointer.exists() else None) == expect["pointer"]


def _device(given: dict[str, Any], into: Path) -> Device:
    models = {role: entry_of(role, given[role]) for role in ("drafter", "target")}
    bundle: Any = SimpleNamespace(path=Path("vectors"), manifest=given, **models)
    if given["installed"] is not None:
        into.mkdir()
        (into / "current").write_text(given["installed"], encoding="ascii")
    return Device(ChannelPair(bundle, map_of(given["map"])), into)
