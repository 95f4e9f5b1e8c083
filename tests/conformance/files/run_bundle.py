"""Runner of `bundle`: opens a directory with a vector's manifest and files."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from conformance.vectors import ROOT, Vector
from omnidraft.errors import BundleError
from omnidraft.runtime.bundle.bundle import MANIFEST, Bundle, open_bundle, seal
from omnidraft.runtime.bundle.model_entry import ModelEntry


def run_bundle(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    names = json.loads((ROOT / "bundle/files.json").read_text(encoding="utf-8"))
    files = {name: name.encode().hex() for name in names}  # the content of each is its name
    files |= {MANIFEST: (ROOT / "bundle" / given["manifest"]).read_bytes().hex(), **given["files"]}
    with tempfile.TemporaryDirectory() as name:
        for path, data in files.items():
            if data is not None:
                (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(name) / path).write_bytes(bytes.fromhex(data))
        if "fault" in expect:
            with pytest.raises(BundleError) as refused:
                open_bundle(name)
            assert refused.value.fault == expect["fault"], str(refused.value)
            return
        bundle = open_bundle(name)
    assert seal(bundle.manifest) == expect["seal"]
    assert _read(bundle) == expect["read"]


def _read(bundle: Bundle) -> dict[str, Any]:
    costs = bundle.costs
    return {
        "target": _model(bundle.target),
        "drafter": _model(bundle.drafter),
        "prompt": asdict(bundle.prompt),
        "costs": {**asdict(costs), "target": list(costs.target)},
        "vocab_map": bundle.vocab_map,
    }


def _model(entry: ModelEntry) -> dict[str, Any]:
    names = ("graph", "tokenizer", "vocab_size", "bos_id")
    fields = {name: getattr(entry, name) for name in names}
    return {**fields, "kv": asdict(entry.kv), "eos_ids": list(entry.eos_ids)}
