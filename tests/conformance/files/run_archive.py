"""Runners of `archive`: archives that are read or refused, indices, addresses, bundles that lack files."""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance.vectors import ROOT, Vector
from omnidraft.errors import BundleError
from omnidraft.runtime.archive.archive import check_hashes
from omnidraft.runtime.archive.open_archive import open_archive
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.hashes import Record
from omnidraft.runtime.bundle.manifest_file import MANIFEST
from omnidraft.runtime.parts.drafter_address import drafter_address
from omnidraft.runtime.parts.pack_index import INDEX, PackIndexError, read_index


def run_valid(vector: Vector) -> None:
    expect = vector["expect"]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "archive.zip"
        file.write_bytes(_bytes(vector["input"]))
        archive = open_archive(file)
        check_hashes(archive)
        assert [[e.name, e.begin, e.size] for e in archive.entries.values()] == expect["entries"]
        for name in archive.files:
            assert bytes(archive.mapped(name)) == name.encode()  # the content of each is its name
    index = archive.index
    assert (index.device, index.drafter, archive.address) == (
        expect["device"],
        expect["drafter"],
        expect["address"],
    )
    assert {name: list(devices) for name, devices in index.left_out.items()} == expect["left_out"]


def run_invalid(vector: Vector) -> None:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "archive.zip"
        file.write_bytes(_bytes(vector["input"]))
        with pytest.raises(BundleError) as refused:
            check_hashes(open_archive(file))
    assert refused.value.fault == vector["expect"]["fault"], str(refused.value)


def run_index(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    if "fault" not in expect:
        index = read_index(given["text"].encode(), given["manifest"], given["files"])
        assert [name for name in given["files"] if index.holds(name)] == expect["holds"]
        return
    with pytest.raises(PackIndexError) as refused:
        read_index(given["text"].encode(), given["manifest"], given["files"])
    assert refused.value.fault == expect["fault"]


def run_address(vector: Vector) -> None:
    files = {name: Record(each["sha256"], each["bytes"]) for name, each in vector["input"]["files"].items()}
    assert drafter_address(files) == vector["expect"]["address"]


def run_open(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    manifest = given["text"].encode()
    files = json.loads(manifest)["files"]
    records = {name: Record(each["sha256"], each["bytes"]) for name, each in files.items()}
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder).resolve() / "bundle"
        shared = bundle.parent / "drafters" / drafter_address(records)
        contents = {bundle / name: name.encode() for name in given["own"]}
        contents |= {shared / name.removeprefix("drafter/"): name.encode() for name in given["shared"]}
        contents[bundle / MANIFEST] = manifest
        if given["index"] is not None:
            contents[bundle / INDEX] = given["index"].encode()
        for path, data in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if "fault" in expect:
            with pytest.raises(BundleError) as refused:
                open_bundle(bundle)
            assert refused.value.fault == expect["fault"], str(refused.value)
            return
        opened = open_bundle(bundle)
        for name, where in expect["place"].items():
            if where == "left_out":
                with pytest.raises(BundleError) as refused:
                    opened.file(name)
                assert refused.value.fault == "left_out"
                continue
            file = opened.file(name)
            assert hashlib.sha256(file.read_bytes()).hexdigest() == records[name].sha256
            assert file.is_relative_to(bundle if where == "bundle" else shared)


@cache
def _base(name: str) -> bytes:
    return _unrolled(json.loads((ROOT / f"archive/{name}.json").read_text(encoding="utf-8"))["runs"])


def _unrolled(runs: list[Any]) -> bytes:
    return b"".join(bytes(run) if isinstance(run, int) else bytes.fromhex(run) for run in runs)


def _bytes(given: dict[str, Any]) -> bytes:
    """The archive of a vector."""
    data = bytearray(_base(given["base"]))
    for begin, end, runs in reversed(given["edits"]):
        data[begin:end] = _unrolled(runs)
    return bytes(data)
