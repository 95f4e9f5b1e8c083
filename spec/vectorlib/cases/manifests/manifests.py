"""The manifest of one small bundle, with and without its optional fields, and changes of it."""

import copy
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from vectorlib.reference.manifest import body_of, sealed
from vectorlib.writer import vector

Manifest = dict[str, Any]
Change = Callable[[Manifest], object]
Case = tuple[str, str, str | None, bytes, dict[str, str | None]]  # name, why, fault, manifest, other files
MAP, GRAPH, STEP = "vocab_map.safetensors", "target/cpu/model.onnx", "drafter/train/step.onnx"
PROMPT = ("prefix", "suffix", "between", "after", "begin", "lead", "system", "think")
ENDS = (
    "system_start", "system_end", "behind_start", "first_start", "first_end", "later_start", "later_end",
    "answer_start", "answer_end",
)  # fmt: skip
MOST_BYTES, MOST_DEPTH = 1 << 22, 32
# The content of each file is its own name: a reader of manifests checks only hashes.
FILES = (
    MAP, GRAPH, "target/tokenizer.json", "target/chat_template.jinja", "drafter/cpu/model.onnx",
    "drafter/tokenizer.json", STEP, "target/npu/host.safetensors",
    "target/npu/weights.bin", "target/npu/1.onnx", "target/npu/8.onnx",
    "drafter/tokenizer.compiled",
)  # fmt: skip


def _model(role: str) -> Manifest:
    return {
        "source": role, "architecture": "Qwen2ForCausalLM", "graph": f"{role}/cpu/model.onnx",
        "tokenizer": f"{role}/tokenizer.json", "tokenizer_fingerprint": "e0" * 32, "compiled_tokenizer": None,
        "vocab_size": 10, "quantization": "fp32", "bos_id": None, "eos_ids": [1, 2], "parameters": 5,
        "kv": {"num_layers": 1, "num_kv_heads": 2, "head_dim": 16, "max_length": 32},
    }  # fmt: skip


def record(name: str) -> Manifest:
    return {"sha256": hashlib.sha256(name.encode()).hexdigest(), "bytes": len(name)}


BASE: Manifest = {
    "format": "omnidraft.bundle", "version": 3, "omnidraft": "0", "vocab_map": MAP,
    "target": _model("target"), "drafter": _model("drafter"),
    "prompt": {"prefix": "<s>Q ", "suffix": "\n", "between": "é\n", "after": "", "begin": "<t>\n",
               "lead": " ",
               "system": {"before": "<s>", "after": "Q "},
               "think": {"open": "<t>", "close": "</t>", "earlier": "trim"},
               "template": "target/chat_template.jinja", "names": {"bos_token": "<s>"}},
    "costs": {"target": [0.5, 0.625], "draft": 0.25, "host": 0, "acceptance": 0.5},
    "files": {name: record(name) for name in FILES},
}  # fmt: skip
SITES = {"layers.0.o": {"inputs": 4, "parts": [["o", 3]]}}


def training(**changes: object) -> Manifest:
    """The fields of a drafter with one site, its adapters and its training step."""
    shapes = {"layers.0.o.o.lora_a": [4, 2], "layers.0.o.o.lora_b": [2, 3]}
    train = {
        "graph": STEP, "folder": "drafter", "rank": 2,
        "tensors": [{"name": name, "shape": shape} for name, shape in shapes.items()],
    }  # fmt: skip
    lora = {"rank": None, "sites": SITES}
    return {"fingerprint": "f0" * 32, "lora": lora, "train": {**train, **changes}}


def static() -> Manifest:
    """Static graphs of the target in one form, and a provider that may run them."""
    graphs = [{"block": 1, "graph": "target/npu/1.onnx"}, {"block": 8, "graph": "target/npu/8.onnx"}]
    form = {"mask": -10000, "weights": "target/npu/weights.bin", "graphs": graphs}
    coreml = {"form": "float", "provider": "CoreMLExecutionProvider", "options": {"MLComputeUnits": "ALL"},
              "directories": ["ModelCacheDirectory"]}  # fmt: skip
    return {
        "kv_length": 24, "host": "target/npu/host.safetensors", "forms": {"float": form},
        "providers": {"coreml": coreml},
    }  # fmt: skip


MACHINE = {
    "cpu": "Cortex-A78", "cores": 8, "system": "Android aarch64", "onnxruntime": "1.23.0", "threads": 4,
    "target_on": "cpu", "drafter_on": "cpu",
}  # fmt: skip


def full(manifest: Manifest) -> None:
    """Add every optional field."""
    manifest["drafter"].update(training(), layout="shared", compiled_tokenizer="drafter/tokenizer.compiled")
    manifest["target"].update(npu=static(), layout="concat", fingerprint="f1" * 32)
    manifest["costs"]["machine"] = dict(MACHINE)
    manifest["prompt"]["trim"] = ["later_end", "first_start"]
    manifest.update(pairs=["<s>=<s>"], checks={"limits": []})


def put(path: Sequence[str], value: object) -> Change:
    """A change that gives the field at a path a value."""

    def change(node: Any) -> None:
        for name in path[:-1]:
            node = node[name]
        node[path[-1]] = copy.deepcopy(value)

    return change


def pop(path: Sequence[str]) -> Change:
    """A change that removes the field at a path."""

    def change(node: Any) -> None:
        for name in path[:-1]:
            node = node[name]
        del node[path[-1]]

    return change


def made(change: Change, base: Manifest = BASE) -> bytes:
    """The file of a manifest with a change."""
    manifest = copy.deepcopy(base)
    change(manifest)
    return sealed(body_of(manifest))


FULL: Manifest = copy.deepcopy(BASE)
full(FULL)
BODY = body_of(BASE)
WHOLE = sealed(BODY)


def nested(depth: int) -> Change:
    """A change that adds an unknown field of that many arrays."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return lambda m: m.update(later=value)


def padded(size: int) -> bytes:
    """A manifest with spaces at its end, which the seal covers, of that many bytes."""
    spaces = size - len(WHOLE)
    return sealed(BODY + " " * spaces)


def bundle_vector(
    name: str, why: str, fault: str | None, data: bytes, files: dict[str, str | None]
) -> dict[str, Any]:
    """One vector; spaces at the end of a file are a number."""
    bare = data.rstrip(b" ")
    try:
        text: dict[str, Any] = {"text": bare.decode()}
    except UnicodeDecodeError:
        text = {"bytes": bare.hex()}
    given = {**text, **({"spaces": len(data) - len(bare)} if bare != data else {}), "files": files}
    return vector(name, why, given, {"fault": fault} if fault else {"read": _read(data)})


_BYTES = {  # what is read in place of a drafter that is null
    "graph": "", "tokenizer": "", "vocab_size": 256, "bos_id": None, "eos_ids": [], "parameters": 0,
    "tokenizer_fingerprint": "0864c10eb9f122e7b9dfef5a287f4fb7c610b310847c0c41656e0656a9b0b03e",
    "kv": {"num_layers": 1, "num_kv_heads": 1, "head_dim": 1, "max_length": 1},
}  # fmt: skip


def _read(data: bytes) -> Manifest:
    """The fields that a runtime reads from a good manifest."""
    m = json.loads(data)
    m["drafter"] = _BYTES if m["drafter"] is None else m["drafter"]
    names = (
        "graph",
        "tokenizer",
        "tokenizer_fingerprint",
        "vocab_size",
        "kv",
        "bos_id",
        "eos_ids",
        "parameters",
    )
    models = {}
    for role in ("target", "drafter"):
        models[role] = {k: m[role][k] for k in names} | {"layout": m[role].get("layout", "shared")}
        models[role]["kv"] = {"type": "float32"} | m[role]["kv"]
        models[role] |= {k: m[role].get(k) for k in ("fingerprint", "lora")}
        models[role]["train"] = m[role].get("train", {}).get("rank")
        models[role]["places"] = ["npu", *m[role]["npu"]["providers"]] if "npu" in m[role] else []
    strings = {k: m["prompt"][k] for k in PROMPT}
    trim = m["prompt"].get("trim")
    strings["trim"] = ["answer_start", "answer_end"] if trim is None else trim
    return {
        "seal": m["seal"], **models, "prompt": strings, "costs": {k: m["costs"][k] for k in BASE["costs"]},
        "measured_on": m["costs"].get("machine"),
        "vocab_map": m["vocab_map"],
    }  # fmt: skip
