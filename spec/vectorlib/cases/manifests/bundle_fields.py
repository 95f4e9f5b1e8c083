"""Vectors of `bundle`: for each field of a manifest, its absence, another kind, and what is out of its range.

A vector is the change of a text that has every field: the bytes that are cut, and the text in their place.
"""

from collections.abc import Iterator
from typing import Any

from vectorlib.cases.manifests.manifests import (
    ENDS,
    FULL,
    MACHINE,
    PROMPT,
    Change,
    made,
    pop,
    put,
    training,
)
from vectorlib.reference.manifest import body_of, sealed
from vectorlib.writer import VectorWriter, vector

Path = tuple[str, ...]
LONG = "é" * 513  # 1,026 bytes
LARGE = 1 << 53

MODEL: dict[str, list[Any]] = {  # field: values outside its range
    "source": [LONG], "architecture": [LONG], "graph": ["a" * 513], "tokenizer": ["a" * 513],
    "tokenizer_fingerprint": ["e0" * 31, "E0" * 32, ""],
    "quantization": ["a" * 65], "bos_id": [-1, 10, 0.0], "eos_ids": [[10], [-1], [0] * 257, [None], [1.0]],
    "parameters": [-1, LARGE, 5.0], "vocab_size": [0, -1, (1 << 24) + 1, 1 << 31, 10.0, "10"],
}  # fmt: skip
KV = {"num_layers": 1 << 10, "num_kv_heads": 1 << 10, "head_dim": 1 << 12, "max_length": 1 << 24}
COSTS: dict[str, list[Any]] = {
    "target": [[], [0], [-0.5], [0.5] * 257, [2e9], ["0.5"], [None], [1e-400], [9.999999999999999e-10]],
    "draft": [0, 5e-324, -0.5, 2e9, "0.25", True], "host": [-1e-300, -0.5, 2e9],
    "acceptance": [1.5, -0.5],
}  # fmt: skip
MACHINE_RANGES: dict[str, list[Any]] = {
    "cpu": ["a" * 257], "cores": [0, 65_537, 8.0], "system": ["a" * 65], "onnxruntime": ["a" * 65],
    "threads": [0, 65_537], "target_on": ["a" * 257], "drafter_on": ["a" * 257],
}  # fmt: skip
TRIM: list[Any] = [
    "first_start", {"first_start": True}, [True], [None], ["first"], ["First_start"],
    ["first_end", "first_end"],
    [*ENDS, "first_end"], [["first_end"]], False,
]  # fmt: skip
NULLABLE = {"bos_id", "between", "template"}


def write(writer: VectorWriter) -> None:
    writer.file("bundle/full.body", body_of(FULL).encode())
    writer.vectors("bundle", "fields", [_vector(*case) for case in (*_fields(), *_ranges())])


def _vector(name: str, why: str, changed: bytes) -> dict[str, Any]:
    base = sealed(body_of(FULL))
    before, after = base[76:], changed[76:]  # after the seal and its comma
    short = min(len(before), len(after))
    start = next((i for i in range(short) if before[i] != after[i]), short)
    end = next((i for i in range(short - start) if before[-1 - i] != after[-1 - i]), short - start)
    cut = [1 + start, 1 + len(before) - end]  # in the text of the object, after its bracket
    given = {"base": "full.body", "cut": cut, "insert": after[start : len(after) - end].decode(), "files": {}}
    return vector(name, why, given, {"fault": "field"})


def _paths() -> Iterator[Path]:
    """Every required field."""
    yield from (("omnidraft",), ("target",), ("drafter",), ("vocab_map",), ("prompt",), ("costs",))
    yield from ((role, name) for role in ("target", "drafter") for name in (*MODEL, "kv"))
    yield from (("target", "kv", name) for name in KV)
    yield from (("prompt", name) for name in (*PROMPT, "template", "names"))
    yield from (("prompt", "system", name) for name in ("before", "after"))
    yield from (("prompt", "think", name) for name in ("open", "close", "earlier"))
    yield from (("costs", name) for name in COSTS)
    yield from (("costs", "machine", name) for name in MACHINE)
    yield from (("drafter", "lora", name) for name in ("rank", "sites"))
    yield from (("drafter", "lora", "sites", "layers.0.o", name) for name in ("inputs", "parts"))
    yield from (("drafter", "train", name) for name in ("graph", "folder", "rank", "tensors"))
    yield from (("target", "npu", name) for name in ("kv_length", "host", "forms", "providers"))
    yield from (("target", "npu", "forms", "float", name) for name in ("mask", "weights", "graphs"))
    yield from (("target", "npu", "providers", "coreml", name) for name in ("form", "provider", "options"))


def _fields() -> Iterator[tuple[str, str, bytes]]:
    for path in _paths():
        name = "_".join(path).replace(".", "_")
        yield f"missing_{name}", "the field is missing", made(pop(path), FULL)
        maps = ("names", "options", "sites", "forms", "providers")
        value: object = [[1]] if path[-1] in maps else {"a": [True]}
        yield f"kind_{name}", "a value of another kind", made(put(path, value), FULL)
        nullable = path[-1] in NULLABLE or path in (
            ("drafter",),
            ("prompt", "after"),
            ("prompt", "system"),
            ("prompt", "think"),
        )
        if not nullable and path != ("drafter", "lora", "rank"):
            yield f"null_{name}", "null", made(put(path, None), FULL)
    optional: list[tuple[Path, Any]] = [
        (("target", "fingerprint"), "f1"), (("drafter", "compiled_tokenizer"), [1]),
        (("target", "layout"), "other"), (("target", "layout"), None),
        (("target", "npu"), [1]), (("drafter", "lora"), [1]),
        (("drafter", "train"), "step.onnx"),
        (("costs", "machine"), "Cortex-A78"),
    ]  # fmt: skip
    for i, (path, value) in enumerate(optional):
        yield (
            f"optional_{i}",
            f"{path[-1]} of another kind",
            made(put(path, value), FULL),
        )


def _ranges() -> Iterator[tuple[str, str, bytes]]:
    limits: list[tuple[Path, list[Any]]] = [
        (("omnidraft",), ["0" * 65]), (("vocab_map",), ["a" * 513]),
        *((("drafter", name), values) for name, values in MODEL.items()),
        *((("target", "kv", name), [0, -1, most + 1, 1.0]) for name, most in KV.items()),
        (("drafter", "kv", "type"), ["bfloat16", "Float16", "", None, 16, ["float16"]]),
        (("prompt", "prefix"), ["a" * 65_537]), (("prompt", "after"), ["é" * 32_769]),
        (("prompt", "template"), ["a" * 513]), (("prompt", "begin"), ["a" * 65_537]),
        (("prompt", "lead"), ["a" * 65_537]), (("prompt", "system", "before"), ["a" * 65_537]),
        (("prompt", "think", "open"), ["", "a" * 65, "</t>"]), (("prompt", "think", "close"), ["", "a" * 65]),
        (("prompt", "think", "earlier"), ["drop", ""]),
        (("prompt", "names"), [{str(i): "" for i in range(65)}, {"a" * 65: ""}, {"": 1}]),
        *((("costs", name), values) for name, values in COSTS.items()),
        *((("costs", "machine", name), values) for name, values in MACHINE_RANGES.items()),
        (("drafter", "lora", "rank"), [0, 1025]),
        (("drafter", "lora", "sites"), [{}, {"a" * 65: training()["lora"]["sites"]["layers.0.o"]}]),
        (("drafter", "lora", "sites", "layers.0.o", "inputs"), [0, (1 << 20) + 1]),
        (("drafter", "lora", "sites", "layers.0.o", "parts"),
         [[], [["o", 3, 1]], [["o"]], [["o", 0]], [[3, "o"]], [["a" * 65, 3]], [["o", 3]] * 9]),
        (("drafter", "train", "graph"), ["a" * 513]), (("drafter", "train", "rank"), [0, 1025, 3]),
        (("drafter", "train", "tensors"),
         [[], [{"name": "x", "shape": [4, 2]}], _twice(), _shape([4]), _shape([4, 0]),
          _shape([4, 2, 1])]),
        (("target", "npu", "kv_length"), [0]),
        (("target", "npu", "forms"), [{}, {"qdq": FULL["target"]["npu"]["forms"]["float"]}]),
        (("target", "npu", "forms", "float", "mask"), [0, 1, -2e9]),
        (("target", "npu", "forms", "float", "lora_rank"), [0, 1025, 4]),
        (("target", "npu", "forms", "float", "graphs"),
         [[], [{"block": 8, "graph": "target/npu/8.onnx"}], [{"block": 0, "graph": "target/npu/1.onnx"}],
          [{"block": 1}], [{"block": 25, "graph": "target/npu/8.onnx"}]]),
        (("target", "npu", "providers", "coreml", "form"), ["qdq"]),
        (("target", "npu", "providers", "coreml", "options"), [{"backend_path": "a"}]),
        (("prompt", "trim"), TRIM),
    ]  # fmt: skip
    for path, values in limits:
        for i, value in enumerate(values):
            name = "_".join(path).replace(".", "_")
            yield f"range_{name}_{i}", f"{value!r:.30} is not in its range", _placed(path, value)
    empty: Change = lambda m: m["target"].update(vocab_size=0, bos_id=None, eos_ids=[])  # noqa: E731
    yield "rule_vocab_size_0", "an empty vocabulary, with no ids that are outside of it", made(empty, FULL)
    npu = FULL["target"]["npu"]
    other_form = {**npu, "forms": {"qdq": npu["forms"]["float"]}, "providers": {}}
    yield "rule_form_float", "the form float is missing, and no provider names it", _placed(
        ("target", "npu"), other_form)  # fmt: skip
    yield "rule_float16_concat", "float16 keys and values are for layout shared", _placed(
        ("target", "kv", "type"), "float16")  # fmt: skip
    one_null: Change = lambda m: m["prompt"].update(between=None)  # noqa: E731
    yield "rule_between_alone", "between and after are both null or neither", made(one_null, FULL)
    alone: Change = lambda m: m["drafter"].pop("lora")  # noqa: E731
    yield "rule_train_alone", "a training step without the sites that it trains", made(alone, FULL)
    base: Change = lambda m: m["drafter"].pop("fingerprint")  # noqa: E731
    yield "rule_train_base", "a training step without the fingerprint of its base", made(base, FULL)


def _twice() -> list[Any]:
    tensors = training()["train"]["tensors"]
    return [*tensors, tensors[0]]


def _shape(shape: list[int]) -> list[Any]:
    first, second = training()["train"]["tensors"]
    return [{**first, "shape": shape}, second]


def _placed(path: Path, value: Any) -> bytes:
    return made(put(path, value), FULL)
