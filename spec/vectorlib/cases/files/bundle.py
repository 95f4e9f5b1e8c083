"""Vectors of `bundle`: manifests of one small directory: good ones, and one for each fault."""

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from vectorlib.writer import VectorWriter, vector

Manifest = dict[str, Any]
Case = tuple[str, str, str | None, bytes, dict[str, str | None]]  # name, why, fault, manifest, other files
MAP, GRAPH = "vocab_map.safetensors", "target/cpu/model.onnx"
# The content of each file is its own name: a reader of manifests checks only hashes.
FILES = (
    MAP, GRAPH, "target/tokenizer.json", "target/chat_template.jinja", "drafter/cpu/model.onnx",
    "drafter/tokenizer.json",
)  # fmt: skip


def _model(role: str) -> Manifest:
    return {
        "source": role, "architecture": "LlamaForCausalLM", "graph": f"{role}/cpu/model.onnx",
        "tokenizer": f"{role}/tokenizer.json", "tokenizer_fingerprint": "e0" * 32,
        "vocab_size": 10, "quantization": "fp32", "bos_id": None, "eos_ids": [1, 2], "parameters": 5,
        "kv": {"num_layers": 1, "num_kv_heads": 2, "head_dim": 16, "max_length": 32},
    }  # fmt: skip


BASE: Manifest = {
    "format": "omnidraft.bundle", "version": 1, "omnidraft": "0", "vocab_map": MAP,
    "target": _model("target"), "drafter": _model("drafter"),
    "prompt": {"prefix": "<s>Q ", "suffix": "\n", "between": "é\n", "after": "", "template":
               "target/chat_template.jinja", "names": {"bos_token": "<s>"}},
    "pairs": [],
    "costs": {"target": [0.5, 0.625], "draft": 0.25, "host": 0, "read": 0.125, "acceptance": 0.5},
    "checks": {},
    "files": {name: {"sha256": hashlib.sha256(name.encode()).hexdigest(), "bytes": len(name)}
              for name in FILES},
}  # fmt: skip


def sealed(manifest: Manifest) -> Manifest:
    """A manifest with the SHA-256 of its canonical JSON."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return {**manifest, "seal": hashlib.sha256(text.encode()).hexdigest()}


def _bytes(manifest: Any) -> bytes:
    return json.dumps(manifest, separators=(",", ":")).encode()


def _changed(change: Callable[[Manifest], object]) -> Manifest:
    manifest = copy.deepcopy(BASE)
    change(manifest)
    return manifest


HEAD = [{"name": name, "shape": shape} for name, shape in
        (("head.blocks.0", [4, 4]), ("head.weight", [4, 1]), ("head.bias", [1, 1]))]  # fmt: skip


def _learning(**changes: object) -> Manifest:
    """The fields of a drafter with one site, its adapters and its training step."""
    sites = {"layers.0.o": {"inputs": 4, "parts": [["o", 3]]}}
    shapes = {"layers.0.o.o.lora_a": [4, 2], "layers.0.o.o.lora_b": [2, 3]}
    train = {
        "graph": "drafter/cpu/model.onnx", "folder": "drafter", "rank": 2,
        "terms": ["trie", "direct", "ngram"],
        "tensors": [{"name": name, "shape": shape} for name, shape in shapes.items()],
    }  # fmt: skip
    lora = {"rank": None, "sites": sites}
    return {"fingerprint": "f0" * 32, "lora": lora, "train": {**train, **changes}}


def write(writer: VectorWriter) -> None:
    writer.table("bundle/files.json", list(FILES))
    vectors = []
    for name, why, fault, data, files in (*_valid(), *_text(), *_files(), *_fields()):
        writer.file(f"bundle/{name}.manifest", data)
        given = {"manifest": f"{name}.manifest", "files": files}
        expect: Manifest = (
            {"fault": fault} if fault else {"seal": json.loads(data)["seal"], "read": _read(data)}
        )
        vectors.append(vector(name, why, given, expect))
    writer.vectors("bundle", "manifests", vectors)


def _read(data: bytes) -> Manifest:
    """The fields that a runtime reads from a good manifest."""
    m = json.loads(data)
    models = {
        role: {k: m[role][k] for k in ("graph", "tokenizer", "vocab_size", "kv", "bos_id", "eos_ids")}
        for role in ("target", "drafter")
    }
    strings = {k: m["prompt"][k] for k in ("prefix", "suffix", "between", "after")}
    return {**models, "prompt": strings, "costs": m["costs"], "vocab_map": m["vocab_map"]}


def _valid() -> Iterator[Case]:
    def good(name: str, why: str, change: Callable[[Manifest], object]) -> Case:
        return name, why, None, _bytes(sealed(_changed(change))), {}

    yield good("whole", "every field is there; the seal is over escaped text beyond ASCII", lambda m: None)
    head = {"hidden": 8, "blocks": 3}
    yield good("head", "a drafter with an adaptive head", lambda m: m["drafter"].update(head=head))
    yield good("train", "a drafter that learns on the device", lambda m: m["drafter"].update(_learning()))
    yield good("field_of_later", "an unknown field is ignored", lambda m: m.update(later=[1]))
    bare: Manifest = {"between": None, "after": None, "template": None, "names": {}}
    yield good("single_turn", "no template and only two strings", lambda m: m["prompt"].update(bare))
    yield good(
        "bos_0", "0 is an id and not an absent one", lambda m: m["target"].update(bos_id=0, eos_ids=[])
    )
    yield good("no_checks", "checks is optional", lambda m: m.pop("checks"))
    spaced = json.dumps(sealed(BASE), indent=1, sort_keys=True, ensure_ascii=False).encode()
    yield "spaced", "the seal is over the values, not over spaces and order in the file", None, spaced, {}


def _text() -> Iterator[Case]:
    whole = _bytes(sealed(BASE))
    yield "no_manifest", "a directory without a manifest", "no_bundle", whole, {"manifest.json": None}
    yield "empty", "no bytes", "unreadable", b"", {}
    yield "cut", "cut in the middle", "unreadable", whole[: len(whole) // 2], {}
    yield "not_utf8", "a byte that is not UTF-8", "unreadable", whole.replace(b"Llama", b"Ll\xffma", 1), {}
    yield "deep", "brackets that are never closed", "unreadable", b"[" * 3000, {}
    yield "list", "JSON, but not an object", "not_a_bundle", b"[1]", {}
    other = _bytes(sealed({**BASE, "format": "other"}))
    yield "other_format", "another format", "not_a_bundle", other, {}
    yield "version_2", "a later version", "version", _bytes(sealed({**BASE, "version": 2})), {}
    yield "version_text", "the version is a number", "version", _bytes(sealed({**BASE, "version": "1"})), {}
    yield "no_seal", "the seal is missing", "seal", _bytes(BASE), {}
    flipped = whole.replace(b'"vocab_size":10', b'"vocab_size":11', 1)
    yield "flipped", "one digit was changed after sealing", "seal", flipped, {}


def _files() -> Iterator[Case]:
    def bad(name: str, why: str, fault: str, change: Callable[[Manifest], object]) -> Case:
        return name, why, fault, _bytes(sealed(_changed(change))), {}

    whole = _bytes(sealed(BASE))
    yield "file_missing", "a graph was not copied", "missing", whole, {GRAPH: None}
    yield "file_short", "a graph was cut", "size", whole, {GRAPH: "00"}
    flipped = bytes([GRAPH.encode()[0] ^ 1]) + GRAPH.encode()[1:]
    yield "file_flipped", "a bit of a graph changed", "checksum", whole, {GRAPH: flipped.hex()}
    yield bad("no_files", "the manifest lists no files", "no_hash", lambda m: m.update(files={}))
    yield bad("hash_missing", "an entry without a hash", "no_hash", lambda m: m["files"][GRAPH].pop("sha256"))
    yield bad(
        "hash_short", "a hash of 63 digits", "no_hash", lambda m: m["files"][GRAPH].update(sha256="a" * 63)
    )
    yield bad("graph_not_listed", "a graph that no hash protects", "no_hash", lambda m: m["files"].pop(GRAPH))
    yield bad(
        "template_not_listed",
        "a chat template that no hash protects",
        "no_hash",
        lambda m: m["files"].pop(FILES[3]),
    )
    step = _learning(graph="drafter/train/step.onnx")
    yield bad(
        "train_not_listed",
        "a training step that no hash protects",
        "no_hash",
        lambda m: m["drafter"].update(step),
    )
    entry = BASE["files"][GRAPH]
    for name, place in (("absolute", "/etc/hosts"), ("parent", "../model.onnx"), ("inside", "a/../../b")):
        files = {**BASE["files"], place: entry}
        outside = _bytes(sealed({**BASE, "files": files}))
        yield f"path_{name}", f"{place} is outside the bundle", "outside", outside, {}


def _fields() -> Iterator[Case]:
    changes: list[tuple[str, str, Callable[[Manifest], object]]] = [
        ("target_missing", "the target is missing", lambda m: m.pop("target")),
        ("kv_missing", "the length of the context is missing", lambda m: m["target"]["kv"].pop("max_length")),
        ("kv_zero", "a context of no positions", lambda m: m["target"]["kv"].update(max_length=0)),
        ("vocab_text", "a number as text", lambda m: m["target"].update(vocab_size="10")),
        ("vocab_bool", "true is not a number", lambda m: m["target"].update(vocab_size=True)),
        ("vocab_huge", "beyond 31 bits", lambda m: m["target"].update(vocab_size=1 << 31)),
        ("eos_number", "a list of one is still a list", lambda m: m["target"].update(eos_ids=1)),
        ("bos_negative", "an id below 0", lambda m: m["drafter"].update(bos_id=-1)),
        ("prompt_list", "a list in place of named strings", lambda m: m.update(prompt=["", ""])),
        ("suffix_null", "only between and after may be null", lambda m: m["prompt"].update(suffix=None)),
        ("names_list", "a list in place of names and values", lambda m: m["prompt"].update(names=["<s>"])),
        (
            "names_number",
            "a name has a value that is not text",
            lambda m: m["prompt"].update(names={"bos_token": 1}),
        ),
        ("template_number", "a path is text", lambda m: m["prompt"].update(template=1)),
        ("costs_empty", "no measured pass", lambda m: m["costs"].update(target=[])),
        ("acceptance_above_one", "an acceptance above 1", lambda m: m["costs"].update(acceptance=1.5)),
        (
            "head_hidden_zero",
            "a head of no width",
            lambda m: m["drafter"].update(head={"hidden": 0, "blocks": 1}),
        ),
        (
            "head_blocks_four",
            "more blocks than a head has",
            lambda m: m["drafter"].update(head={"hidden": 8, "blocks": 4}),
        ),
        (
            "train_alone",
            "a training step without the sites that it trains",
            lambda m: m["drafter"].update(train=_learning()["train"]),
        ),
        (
            "train_other_rank",
            "tensors of another rank than the field rank",
            lambda m: m["drafter"].update(_learning(rank=3)),
        ),
        (
            "train_terms",
            "terms that this version does not know",
            lambda m: m["drafter"].update(_learning(terms=["trie"])),
        ),
        (
            "train_head",
            "a head's step, but the graph takes no head",
            lambda m: m["drafter"].update(_learning(head={"graph": GRAPH, "tensors": HEAD})),
        ),
        ("head_list", "a list in place of named sizes", lambda m: m["drafter"].update(head=[8, 1])),
        ("costs_zero", "a draft token that costs 0 seconds", lambda m: m["costs"].update(draft=0)),
    ]
    for name, why, change in changes:
        yield name, why, "field", _bytes(sealed(_changed(change))), {}
