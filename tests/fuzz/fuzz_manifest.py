"""Mutated manifests, sealed again: each is refused in a sentence, or its fields have the right types.

PYTHONPATH=tests python -m fuzz.fuzz_manifest [--count 10000] [--seconds 120] [--seed 0]
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import random
import tempfile
from collections import Counter
from dataclasses import astuple
from pathlib import Path
from typing import Any

from fuzz.command import command, numbers
from omnidraft.errors import OmnidraftError
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.manifest_file import FORMAT, MANIFEST, VERSION, sealed
from omnidraft.runtime.bundle.model_entry import LAYOUTS

BEFORE = '{"seal": "'
_WEIRD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, math.inf, -math.inf, math.nan,
    "", "x", "..", "/etc/passwd", "a/../../b", "a\\b", "\0", "\ud800", "x" * 5000, "target", "12", "\n",
    [], [[]], [None], [1, "a"], {}, {"": {}}, {"sha256": "0" * 64},
)  # fmt: skip


def make_bundle(place: Path) -> dict[str, Any]:
    """The smallest directory that opens: files of a few bytes, so that hashing costs nothing."""
    names = ["vocab_map.safetensors"]
    names += [
        f"{role}/{name}" for role in ("target", "drafter") for name in ("cpu/model.onnx", "tokenizer.json")
    ]
    files = {}
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(name.encode())
        files[name] = {"sha256": hashlib.sha256(name.encode()).hexdigest(), "bytes": len(name)}
    manifest: dict[str, Any] = {"format": FORMAT, "version": VERSION, "omnidraft": "0", "files": files}
    for role in ("target", "drafter"):
        manifest[role] = {
            "source": role, "architecture": "LlamaForCausalLM", "graph": f"{role}/cpu/model.onnx",
            "tokenizer": f"{role}/tokenizer.json", "vocab_size": 10, "quantization": "fp32", "bos_id": None,
            "eos_ids": [1], "parameters": 5, "tokenizer_fingerprint": "b" * 64,
            "compiled_tokenizer": None,
            "fingerprint": "a" * 64,
            "lora": {"rank": None, "sites": {"layers.0.qkv": {"inputs": 3, "parts": [["q", 2], ["k", 1]]}}},
            "kv": {"num_layers": 1, "num_kv_heads": 1, "head_dim": 16, "max_length": 32},
        }  # fmt: skip
    manifest["drafter"]["layout"] = "concat"  # the target has none, as an older bundle
    npu = [
        f"target/npu/{name}" for name in ("decode_1.onnx", "verify_5.onnx", "weights.bin", "host.safetensors")
    ]
    for name in npu:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(name.encode())
        files[name] = {"sha256": hashlib.sha256(name.encode()).hexdigest(), "bytes": len(name)}
    graphs = [{"block": 1, "graph": npu[0]}, {"block": 5, "graph": npu[1]}]
    manifest["target"]["npu"] = {
        "kv_length": 16, "host": npu[3],
        "forms": {"float": {"mask": -1e4, "weights": npu[2], "graphs": graphs}},
        "providers": {"coreml": {
            "form": "float", "provider": "CoreMLExecutionProvider", "options": {"MLComputeUnits": "ALL"},
        }},
    }  # fmt: skip
    manifest["prompt"] = {
        "prefix": "Q: ", "suffix": "\nA:", "between": "\nQ: ", "after": "\nA:",
        "begin": "<think>", "lead": " ", "system": {"before": "S: ", "after": "\n"},
        "think": {"open": "<think>", "close": "</think>", "earlier": "trim"},
        "template": names[0], "names": {"bos_token": "<s>"},
    }  # fmt: skip
    manifest["costs"] = {"target": [0.1, 0.11], "draft": 0.01, "host": 0.001, "acceptance": 0.5}
    manifest["vocab_map"] = names[0]
    return manifest


def mutant(manifest: dict[str, Any], rng: random.Random) -> str:
    """A manifest with one to three changes, sealed again; some are spoiled as text after that."""
    changed = copy.deepcopy(manifest)
    for _ in range(rng.randint(1, 3)):
        _change(changed, rng)
    text = resealed(json.dumps(changed))
    kind = rng.random()
    if kind < 0.04:  # deeper than any parser reads: refused before its seal is checked
        return resealed(text[:-1] + ', "deep": ' + "[" * rng.choice([33, 900, 100_000]) + "]" * 900 + "}")
    if kind < 0.15:
        at = rng.randrange(len(text))
        return text[:at] + rng.choice(["", "\0", "{", '"', "1e999", "\ufeff"]) + text[at + rng.randrange(3) :]
    return text


def resealed(text: str) -> str:
    """The text of an object with a right seal at its beginning, in place of the old one."""
    rest = f'",{text.split(chr(34) + ",", 1)[1] if text.startswith(BEFORE) else text[1:]}'
    return BEFORE + hashlib.sha256(rest.encode()).hexdigest() + rest


def _change(node: Any, rng: random.Random) -> None:
    """Walk down at random and replace, remove or add something."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and rng.random() < 0.7:
            node = node[key]
            continue
        how = rng.random()
        if how < 0.15:
            del node[key]
        elif how < 0.25 and isinstance(node, dict):
            name = rng.choice([w for w in _WEIRD if isinstance(w, str)])
            node[name] = node.pop(key)
        else:
            node[key] = copy.deepcopy(rng.choice(_WEIRD))
        return


def check(bundle: Bundle) -> None:
    """Check what a runtime relies on without a check of its own."""
    for entry in (bundle.target, bundle.drafter):
        assert bundle.file(entry.graph).is_file() and bundle.file(entry.tokenizer).is_file()
        assert all(type(n) is int for n in (entry.vocab_size, entry.parameters, *entry.eos_ids))
        assert 1 <= entry.kv.max_length < 2**31 and entry.kv_bytes > 0
        assert entry.layout in LAYOUTS
        assert entry.fingerprint is None or len(entry.fingerprint) == 64
        if entry.lora is not None:
            assert entry.lora.sites and (entry.lora.rank is None or entry.lora.rank > 0)
            sites = entry.lora.sites.items()
            assert all(type(n) is str and s.inputs > 0 and s.outputs > 0 for n, s in sites)
        for place in entry.places.values():
            assert all(bundle.file(name).is_file() for name in place.files)
            assert 1 in place.form.graphs and place.kv_length >= 1 and place.form.mask < 0
            assert all(type(text) is str for item in place.provider.options.items() for text in item)
    assert all(math.isfinite(c) for c in (*bundle.costs.target, *astuple(bundle.costs)[1:]))
    assert type(bundle.prompt.prefix) is str and type(bundle.prompt.suffix) is str
    prompt = bundle.manifest["prompt"]
    assert prompt["template"] is None or bundle.file(prompt["template"]).is_file()
    assert all(type(text) is str for text in prompt["names"].values())


def fuzz(count: int, seconds: float, seed: int) -> Counter[str]:
    """Try that many mutants, or as many as the time allows, and count how each ended."""
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        manifest = make_bundle(place)
        (place / MANIFEST).write_bytes(sealed(manifest))
        check(open_bundle(place))  # without a change it opens
        for _ in numbers(count, seconds):
            (place / MANIFEST).write_bytes(mutant(manifest, rng).encode("utf-8", "surrogatepass"))
            try:
                check(open_bundle(place))
                seen["valid"] += 1
            except OmnidraftError as error:
                seen[type(error).__name__ if str(error) else "no sentence"] += 1
    return seen


if __name__ == "__main__":
    command(__doc__, "manifests", 10_000, fuzz)
