"""Runners of `adapter/...`: good and bad files, and the models that they fit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.vectors import ROOT, Vector
from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.bundle.model_entry import KvShape, ModelEntry
from omnidraft.runtime.models.adapter_file import encode_adapter, metadata_of, read_adapter
from omnidraft.runtime.models.adapter_fit import fit


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


def run_fit(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    adapter = read_adapter(ROOT / "adapter/fit" / given["file"])
    models = {role: entry_of(role, given[role]) for role in ("drafter", "target")}
    bundle: Any = SimpleNamespace(path=Path("vectors"), manifest=given, **models)
    prints: Any = SimpleNamespace(
        draft_fingerprint=given["draft_tokenizer"], target_fingerprint=given["target_tokenizer"]
    )
    if "fault" in expect:
        with pytest.raises(AdapterError) as refused:
            fit(adapter, bundle, prints, given["role"])
        assert refused.value.fault == expect["fault"], str(refused.value)
        return
    role, fitted = fit(adapter, bundle, prints, given["role"])
    assert role == expect["model"]
    assert fitted.tensors is not None
    assert {name: tensor.tolist() for name, tensor in fitted.tensors.items()} == expect["tensors"]


def entry_of(role: str, model: dict[str, Any]) -> ModelEntry:
    """A model of a bundle with the fields that concern adapters."""
    lora = model["lora"]
    sites = {} if lora is None else lora["sites"]
    named = {n: Site(s["inputs"], tuple((p, width) for p, width in s["parts"])) for n, s in sites.items()}
    return ModelEntry(
        role, "Table", f"{role}.onnx", role, KvShape(1, 1, 1, 64), 16, "fp32", None, (), 1,
        fingerprint=model["fingerprint"],
        lora=None if lora is None else LoraSites(lora["rank"], named),
    )  # fmt: skip
