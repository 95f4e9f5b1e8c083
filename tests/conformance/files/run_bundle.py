"""Runners of `bundle`: opens a directory with a vector's manifest and files; and of `bundle/graph`."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from conformance.vectors import ROOT, Vector
from omnidraft.errors import BundleError
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.external_data import GraphFileError, external_files
from omnidraft.runtime.bundle.manifest_file import MANIFEST, seal_of
from omnidraft.runtime.bundle.model_entry import ModelEntry


def run_bundle(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    names = json.loads((ROOT / "bundle/files.json").read_text(encoding="utf-8"))
    files = {name: name.encode().hex() for name in names}  # the content of each is its name
    data = _manifest(given)
    files |= {MANIFEST: data.hex(), **given["files"]}
    with tempfile.TemporaryDirectory() as name:
        for path, content in files.items():
            if content is not None:
                (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(name) / path).write_bytes(bytes.fromhex(content))
        if "fault" in expect:
            with pytest.raises(BundleError) as refused:
                open_bundle(name)
            assert refused.value.fault == expect["fault"], str(refused.value)
            return
        bundle = open_bundle(name)
    assert seal_of(data) == expect["read"]["seal"]
    assert _read(bundle) == expect["read"]


def run_graph(vector: Vector) -> None:
    data, expect = bytes.fromhex(vector["input"]["graph"]), vector["expect"]
    if expect["fault"] is None:
        assert sorted(external_files(data)) == expect["files"]
        return
    with pytest.raises(GraphFileError) as refused:
        external_files(data)
    assert refused.value.fault == expect["fault"]


def _manifest(given: dict[str, Any]) -> bytes:
    """The manifest of a vector: its text, or another text with a change and a right seal."""
    if "base" not in given:
        text = bytes.fromhex(given["bytes"]) if "bytes" in given else given["text"].encode()
        return bytes(text) + b" " * int(given.get("spaces", 0))
    body, (start, end) = (ROOT / "bundle" / given["base"]).read_bytes(), given["cut"]
    rest: bytes = b'",' + body[1:start] + given["insert"].encode() + body[end:]
    return b'{"seal": "' + hashlib.sha256(rest).hexdigest().encode() + rest


def _read(bundle: Bundle) -> dict[str, Any]:
    costs = bundle.costs
    return {
        "seal": bundle.manifest["seal"],
        "target": _model(bundle.target),
        "drafter": _model(bundle.drafter),
        # No vector has tools, which only Python reads so far.
        "prompt": {n: v for n, v in asdict(bundle.prompt).items() if n not in ("tools", "trim")}
        | {"trim": list(bundle.prompt.trim)},
        "costs": {**asdict(costs), "target": list(costs.target)},
        "measured_on": None if bundle.measured_on is None else bundle.measured_on.as_json(),
        "vocab_map": bundle.vocab_map,
    }


def _model(entry: ModelEntry) -> dict[str, Any]:
    names = (
        "graph", "tokenizer", "tokenizer_fingerprint", "vocab_size", "bos_id", "parameters", "layout",
        "fingerprint",
    )  # fmt: skip
    lora = None if entry.lora is None else json.loads(json.dumps(asdict(entry.lora)))
    return {
        **{name: getattr(entry, name) for name in names},
        "kv": asdict(entry.kv),
        "eos_ids": list(entry.eos_ids),
        "lora": lora,
        "train": None if entry.train is None else entry.train.rank,
        "places": list(entry.places),
    }
