"""A made-up bundle with every kind of file that packing decides about; no graph of it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fuzz.fuzz_graph import field
from fuzz.fuzz_manifest import make_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST, sealed

STEP = {
    "graph": "drafter/train/step.onnx", "folder": "drafter", "rank": 2,
    "tensors": [
        {"name": f"layers.0.qkv.{part}.lora_{side}", "shape": shape}
        for part, width in (("q", 2), ("k", 1))
        for side, shape in (("a", [3, 2]), ("b", [2, width]))
    ],
}  # fmt: skip
COMMON = {"vocab_map.safetensors", "target/tokenizer.bin", "drafter/tokenizer.bin"}
TARGET = {"target/cpu/model.onnx", "target/cpu/model.onnx.data"}
DRAFTER = {"drafter/cpu/model.onnx", "drafter/cpu/model.onnx.data"}
TRAIN = {"drafter/train/step.onnx", "drafter/cpu/model.onnx.data"}
QNN = {f"{role}/npu/qdq/{name}" for role in ("target", "drafter") for name in ("1.onnx", "weights.bin")}
FLOAT = {f"{role}/npu/{name}" for role in ("target", "drafter") for name in ("1.onnx", "weights.bin")}
HOST = {f"{role}/npu/host.safetensors" for role in ("target", "drafter")}
NEEDS: dict[str, set[str]] = {
    "desktop": COMMON | TARGET | DRAFTER | TRAIN | {"target/chat_template.jinja"},
    "android-cpu": COMMON | TARGET | DRAFTER | TRAIN,
    "ios-cpu": COMMON | TARGET | DRAFTER | TRAIN,
    "android-qnn": COMMON | DRAFTER | TRAIN | QNN | HOST,
}


def graph(*weights: str) -> bytes:
    """The bytes of an ONNX graph whose tensors are in files."""
    tensors = [field(5, field(13, field(1, b"location"), field(2, name.encode()))) for name in weights]
    return field(7, field(2, b"made up"), *tensors)


def packable(place: Path, target: bytes = b"a target", more: dict[str, bytes] | None = None) -> Path:
    """Write the bundle.

    Args:
        place: the directory to make.
        target: the content of the target's weights; all else is equal.
        more: other contents of files.
    """
    place.mkdir(parents=True)
    manifest = make_bundle(place)
    contents = _contents(target) | (more or {})
    for role in ("target", "drafter"):
        manifest[role] |= {
            "layout": "shared",
            "tokenizer": f"{role}/tokenizer.json",
            "compiled_tokenizer": f"{role}/tokenizer.bin",
            "npu": _static(role),
        }
    manifest["drafter"]["train"] = STEP
    manifest["prompt"] |= {"begin": "", "lead": "", "system": None, "think": None}
    manifest["prompt"]["template"] = "target/chat_template.jinja"
    for file in sorted(place.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    manifest["files"] = write_files(place, contents)
    (place / MANIFEST).write_bytes(sealed(manifest))
    return place


def write_files(place: Path, contents: dict[str, bytes]) -> dict[str, Any]:
    """Write files and return the field `files` of their manifest."""
    records = {}
    for name, data in contents.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
        records[name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    return records


def _contents(target: bytes) -> dict[str, bytes]:
    names: Sequence[str] = sorted(
        {*NEEDS["desktop"], *QNN, *FLOAT, *HOST}
        | {f"{role}/tokenizer.json" for role in ("target", "drafter")}
    )
    contents = {name: name.encode() for name in names}
    contents["target/cpu/model.onnx.data"] = target
    for role in ("target", "drafter"):
        contents[f"{role}/cpu/model.onnx"] = graph("model.onnx.data")
    contents["drafter/train/step.onnx"] = graph("cpu/model.onnx.data")
    contents["target/tokenizer.bin"] = b""  # also an empty file
    return contents


def _static(role: str) -> dict[str, Any]:
    def form(folder: str) -> dict[str, Any]:
        graphs = [{"block": 1, "graph": f"{role}/npu{folder}/1.onnx"}]
        return {"mask": -1e4, "weights": f"{role}/npu{folder}/weights.bin", "graphs": graphs}

    qnn = {"form": "qdq", "provider": "QNNExecutionProvider", "options": {"backend_type": "htp"}}
    coreml = {"form": "float", "provider": "CoreMLExecutionProvider", "options": {}}
    return {
        "kv_length": 16, "host": f"{role}/npu/host.safetensors",
        "forms": {"float": form(""), "qdq": form("/qdq")},
        "providers": {"qnn": qnn, "qnn-fp16": {**qnn, "form": "float"}, "coreml": coreml},
    }  # fmt: skip
