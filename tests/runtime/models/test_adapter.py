"""Adapters as values and as files: what is written is read, and every fault has its name and sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.models.adapter import Adapter, no_adapter
from omnidraft.runtime.models.adapter_file import (
    decode_adapter,
    encode_adapter,
    read_adapter,
    write_adapter,
)
from support.adapters import BASE, CREATED, OPEN, SITES, adapter


def test_a_file_holds_the_adapter_and_is_safetensors(tmp_path: Path) -> None:
    learned = adapter()
    path = tmp_path / "a.safetensors"
    write_adapter(path, learned)
    again = read_adapter(path)
    assert (again.base, again.created, again.digest) == (BASE, CREATED, learned.digest)
    assert again.rank == 2 and again.tensors.keys() == SITES.keys()
    assert encode_adapter(again) == path.read_bytes() == encode_adapter(adapter())
    for site, (a, b) in learned.tensors.items():
        stored = load(path.read_bytes())
        assert np.array_equal(stored[f"{site}.lora_a"], a) and np.array_equal(stored[f"{site}.lora_b"], b)
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_fixed_rank_is_filled_up() -> None:
    fixed = LoraSites(4, SITES)
    fed = replace(adapter(), tensors={"layers.0.o": adapter().tensors["layers.0.o"]}).inputs(fixed)
    a, b = adapter().tensors["layers.0.o"]
    assert {n: t.shape for n, t in fed.items()} == {n: t.shape for n, t in no_adapter(fixed).items()}
    assert fed["layers.0.o.lora_a"].shape == (2, 4) and fed["layers.0.o.lora_b"].shape == (4, 3)
    assert np.array_equal(fed["layers.0.o.lora_a"] @ fed["layers.0.o.lora_b"], a @ b)
    assert not fed["layers.0.qkv.lora_a"].any() and not fed["layers.0.qkv.lora_b"].any()
    assert no_adapter(OPEN) == {}


def test_no_mutation_gets_through_as_anything_but_an_adapter() -> None:
    """Random bytes changed, cut and added: a named fault, or an adapter whose fields hold."""
    rng, whole = np.random.default_rng(0), encode_adapter(adapter())
    seen = set()
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        if rng.random() < 0.2:
            data = data[: rng.integers(len(data))]
        try:
            decoded = decode_adapter(bytes(data))
            assert decoded.inputs(found_sites(decoded)) and np.isfinite(decoded.digest.encode()[0])
            seen.add("valid")
        except AdapterError as error:
            seen.add(error.fault if str(error) else "no sentence")
    assert seen >= {"valid", "truncated", "not_an_adapter", "layout", "metadata", "version"}
    assert "no sentence" not in seen


def found_sites(found: Adapter) -> LoraSites:
    sites = {n: Site(len(a), (("all", b.shape[1]),)) for n, (a, b) in found.tensors.items()}
    return LoraSites(None, sites)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="choose another place") as caught:
        write_adapter(tmp_path / "no" / "a.safetensors", adapter())
    assert caught.value.fault == "unwritable"
    assert not list(tmp_path.iterdir())
