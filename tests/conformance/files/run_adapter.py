"""Runners of `adapter/...`: good and bad files."""

from __future__ import annotations

import pytest

from conformance.vectors import ROOT, Vector
from omnidraft.errors import AdapterError
from omnidraft.runtime.models.adapter_file import encode_adapter, metadata_of, read_adapter


def run_valid(vector: Vector) -> None:
    path, expect = ROOT / "adapter/valid" / vector["input"]["file"], vector["expect"]
    adapter = read_adapter(path)
    assert metadata_of(adapter) == expect["metadata"]
    tensors = adapter.named
    assert {name: list(t.shape) for name, t in tensors.items()} == expect["shapes"]
    assert {name: t.tolist() for name, t in tensors.items()} == expect["tensors"]
    assert adapter.digest == expect["digest"]
    assert (encode_adapter(adapter) == path.read_bytes()) is expect["canonical"]


def run_invalid(vector: Vector) -> None:
    with pytest.raises(AdapterError) as refused:
        read_adapter(ROOT / "adapter/invalid" / vector["input"]["file"])
    assert refused.value.fault == vector["expect"]["fault"], str(refused.value)
