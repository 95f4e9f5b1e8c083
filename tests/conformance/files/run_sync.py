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
from omnidraft.runtime.bundle.signature import Signature, decode, key_id
from omnidraft.sync.installed import read_installed
from omnidraft.sync.pull import Device, pull
from omnidraft.sync.push_record import decode_push, encode_push
from omnidraft.sync.record_lines import Channel, StoredFile
from omnidraft.sync.release import Release, Seen, check_release, decode_release, encode_release
from omnidraft.sync.store import open_store


def run_release(vector: Vector) -> None:
    pytest.importorskip("cryptography", reason="signatures need the package cryptography")
    given, expect = vector["input"], vector["expect"]
    channel = Channel(**given["channel"])
    if "seed" in given:
        _check_written(given, channel, expect)
        return
    data = bytes.fromhex(given["file"])
    seen = None if given["seen"] is None else Seen(**given["seen"])
    public = None if given["public_key"] is None else bytes.fromhex(given["public_key"])

    def read() -> tuple[Release, str | None]:
        release, signer = decode_release(data, public)
        check_release(release, channel, seen, given["now"])
        return release, signer

    if expect["fault"] is not None:
        _refused(read, expect["fault"], vector)
        return
    release, signer = read()
    assert encode_release(release, decode(data[:200])) == data
    assert signer == (None if public is None else key_id(public))


def _check_written(given: dict[str, Any], channel: Channel, expect: dict[str, Any]) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(given["seed"]))
    adapter, cache = (
        None if given[name] is None else StoredFile(given[name]["sha256"], given[name]["bytes"])
        for name in ("adapter", "cache")
    )
    release = Release(
        given["number"], channel, given["created"], given["expires"], adapter, cache,
        given["accepted"], given["devices"],
    )  # fmt: skip
    signature = Signature(key_id(key.public_key().public_bytes_raw()), key.sign(release.text))
    assert channel.id == expect["channel_id"]
    assert encode_release(release, signature) == bytes.fromhex(expect["file"])


def run_push(vector: Vector) -> None:
    data, fault = bytes.fromhex(vector["input"]["file"]), vector["expect"]["fault"]
    if fault is None:
        assert encode_push(decode_push(data)) == data
    else:
        _refused(lambda: decode_push(data), fault, vector)


def _refused(read: Any, fault: str, vector: Vector) -> None:
    with pytest.raises(SyncError) as refused:
        read()
    assert refused.value.fault == fault, json.dumps(vector)
    assert str(refused.value)


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
    pytest.importorskip("fsspec", reason="stores need the package fsspec")
    given, expect = vector["input"], vector["expect"]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        device = _device(given, place / "device")
        store = open_store(str(_filled(place, given["store"])))
        if expect["fault"] is not None:
            with pytest.raises(OmnidraftError) as refused:
                pull(store, device, now=given["now"])
            assert refused.value.fault == expect["fault"], str(refused.value)
        else:
            pull(store, device, now=given["now"])
            installed = read_installed(device.into)
            assert installed is not None
            assert {file.name for file in device.into.iterdir()} == {"current", *installed.files}
        assert _pointer(device) == expect["pointer"]


def _filled(place: Path, files: dict[str, str] | None) -> Path:
    """A folder with the files of a store; one that cannot be read where there is no store."""
    if files is None:
        (place / "file").write_bytes(b"")
        return place / "file" / "store"
    for path, data in files.items():
        (place / "store" / path).parent.mkdir(parents=True, exist_ok=True)
        (place / "store" / path).write_bytes(bytes.fromhex(data))
    return place / "store"


def _device(given: dict[str, Any], into: Path) -> Device:
    models = {role: entry_of(role, given[role]) for role in ("drafter", "target")}
    bundle: Any = SimpleNamespace(path=Path("vectors"), manifest=given, **models)
    if given["installed"] is not None:
        into.mkdir()
        (into / "current").write_text(given["installed"], encoding="ascii")
    key = None if given["public_key"] is None else bytes.fromhex(given["public_key"])
    return Device(bundle, map_of(given["map"]), into, key)


def _pointer(device: Device) -> str | None:
    pointer = device.into / "current"
    return pointer.read_text("ascii") if pointer.exists() else None
