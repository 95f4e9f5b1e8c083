"""Vectors of `bundle`: manifests of one small directory that open, and those with a fault before the fields.

bundle_fields.py has the faults of fields.
"""

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vectorlib.reference.manifest import body_of, sealed
from vectorlib.writer import VectorWriter, vector

Manifest = dict[str, Any]
Change = Callable[[Manifest], object]
Case = tuple[str, str, str | None, bytes, dict[str, str | None]]  # name, why, fault, manifest, other files
MAP, GRAPH, STEP = "vocab_map.safetensors", "target/cpu/model.onnx", "drafter/train/step.onnx"
PROMPT = ("prefix", "suffix", "between", "after", "begin", "lead", "system", "think")
MOST_BYTES, MOST_DEPTH = 1 << 22, 32
# The content of each file is its own name: a reader of manifests checks only hashes.
FILES = (
    MAP, GRAPH, "target/tokenizer.json", "target/chat_template.jinja", "drafter/cpu/model.onnx",
    "drafter/tokenizer.json", STEP, "drafter/train/head.onnx", "target/npu/host.safetensors",
    "target/npu/weights.bin", "target/npu/1.onnx", "target/npu/8.onnx", "target/ort/model.ort",
    "drafter/ort/model.ort", "ort/required_operators.config", "drafter/tokenizer.compiled",
)  # fmt: skip


def _model(role: str) -> Manifest:
    return {
        "source": role, "architecture": "Qwen2ForCausalLM", "graph": f"{role}/cpu/model.onnx",
        "tokenizer": f"{role}/tokenizer.json", "tokenizer_fingerprint": "e0" * 32, "compiled_tokenizer": None,
        "vocab_size": 10, "quantization": "fp32", "bos_id": None, "eos_ids": [1, 2], "parameters": 5,
        "kv": {"num_layers": 1, "num_kv_heads": 2, "head_dim": 16, "max_length": 32},
    }  # fmt: skip


def _record(name: str) -> Manifest:
    return {"sha256": hashlib.sha256(name.encode()).hexdigest(), "bytes": len(name)}


BASE: Manifest = {
    "format": "omnidraft.bundle", "version": 3, "omnidraft": "0", "vocab_map": MAP,
    "target": _model("target"), "drafter": _model("drafter"),
    "prompt": {"prefix": "<s>Q ", "suffix": "\n", "between": "é\n", "after": "", "begin": "<t>\n", "lead": " ",
               "system": {"before": "<s>", "after": "Q "},
               "think": {"open": "<t>", "close": "</t>", "earlier": "trim"},
               "template": "target/chat_template.jinja", "names": {"bos_token": "<s>"}},
    "costs": {"target": [0.5, 0.625], "draft": 0.25, "host": 0, "acceptance": 0.5},
    "files": {name: _record(name) for name in FILES},
}  # fmt: skip
SITES = {"layers.0.o": {"inputs": 4, "parts": [["o", 3]]}}
HEAD_STEP = {
    "graph": "drafter/train/head.onnx",
    "tensors": [{"name": name, "shape": shape} for name, shape in
                (("head.blocks.0", [4, 4]), ("head.weight", [4, 1]), ("head.bias", [1, 1]))],
}  # fmt: skip


def training(**changes: object) -> Manifest:
    """The fields of a drafter with one site, its adapters, its head and its training step."""
    shapes = {"layers.0.o.o.lora_a": [4, 2], "layers.0.o.o.lora_b": [2, 3]}
    train = {
        "graph": STEP, "folder": "drafter", "rank": 2, "terms": ["trie", "direct", "ngram"],
        "tensors": [{"name": name, "shape": shape} for name, shape in shapes.items()], "head": HEAD_STEP,
    }  # fmt: skip
    lora, head = {"rank": None, "sites": SITES}, {"hidden": 4, "blocks": 1}
    return {"fingerprint": "f0" * 32, "lora": lora, "head": head, "train": {**train, **changes}}


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
ORT = {
    "target": "target/ort/model.ort", "drafter": "drafter/ort/model.ort", "style": "runtime",
    "required_operators": "ort/required_operators.config", "onnxruntime": "1.20.0",
}  # fmt: skip


def full(manifest: Manifest) -> None:
    """Add every optional field."""
    manifest["drafter"].update(training(), layout="shared", compiled_tokenizer="drafter/tokenizer.compiled")
    manifest["target"].update(npu=static(), layout="concat", fingerprint="f1" * 32)
    manifest["costs"]["machine"] = dict(MACHINE)
    manifest.update(ort=copy.deepcopy(ORT), pairs=["<s>=<s>"], checks={"limits": []})


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


def write(writer: VectorWriter) -> None:
    writer.table("bundle/files.json", list(FILES))
    for topic, cases in (("valid", _valid()), ("text", _text()), ("seal", _seal()), ("listed", _files())):
        writer.vectors("bundle", topic, [bundle_vector(*case) for case in cases])


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


def _read(data: bytes) -> Manifest:
    """The fields that a runtime reads from a good manifest."""
    m = json.loads(data)
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
        models[role] |= {k: m[role].get(k) for k in ("fingerprint", "lora", "head")}
        models[role]["train"] = m[role].get("train", {}).get("rank")
        models[role]["places"] = ["npu", *m[role]["npu"]["providers"]] if "npu" in m[role] else []
    strings = {k: m["prompt"][k] for k in PROMPT}
    return {
        "seal": m["seal"], **models, "prompt": strings, "costs": {k: m["costs"][k] for k in BASE["costs"]},
        "measured_on": m["costs"].get("machine"),
        "vocab_map": m["vocab_map"],
        "ort": m.get("ort"),
    }  # fmt: skip


def _valid() -> Iterator[Case]:
    def good(name: str, why: str, data: bytes) -> Case:
        return name, why, None, data, {}

    yield good("whole", "every required field is there", WHOLE)
    yield good("full", "every optional field is there, too", sealed(body_of(FULL)))
    head = {"hidden": 8, "blocks": 3}
    yield good("head", "a drafter with an adaptive head", made(lambda m: m["drafter"].update(head=head)))
    yield good("later", "an unknown field is ignored", made(lambda m: m.update(later=[1e16, None])))
    unknown: Change = lambda m: (m["target"].update(x=1), m["costs"].update(x=1), m["prompt"].update(x=1))  # noqa: E731
    yield good("later_inside", "an unknown field inside another is ignored", made(unknown))
    bare: Manifest = {"between": None, "after": None, "template": None, "names": {}, "system": None, "think": None}
    yield good("single_turn", "no template, two strings, no system prompt, no thoughts", made(lambda m: m["prompt"].update(bare)))
    zero = made(lambda m: m["target"].update(bos_id=0, eos_ids=[]))
    yield good("bos_0", "0 is an id and not an absent one", zero)
    last = made(lambda m: m["target"].update(bos_id=9, eos_ids=[9] * 256, vocab_size=10))
    yield good("last_id", "the largest id, and as many end tokens as there may be", last)
    numbers = BODY.replace(
        '"costs":{"target":[0.5,0.625],"draft":0.25,"host":0,"acceptance":0.5}',
        '"costs":{"target":[1.2e-05,0.000012,1E-7,0.1,3,3.0,1e9],"draft":1.2E-05,"host":-0.0,'
        '"acceptance":0.30000000000000004},"later":[1e16,1e-400,12345678901234567890,100000000000000000000]',
    )
    assert numbers != BODY
    yield good(
        "numbers", "numbers that languages print in other ways; the seal is over bytes", sealed(numbers)
    )
    spaced = json.dumps(BASE, indent=1, sort_keys=True, ensure_ascii=False)
    yield good("spaced", "white space, another order, text beyond ASCII without escapes", sealed(spaced))
    line_ends = spaced.replace("\n", "\r\n\t")
    yield good("line_ends", "other white space: the seal is over these bytes", sealed(line_ends))
    escapes = BODY.replace('"<s>Q "', '"\\u003cs\\u003e\\/\\b\\f\\n\\r\\t\\"\\\\\\uD83D\\uDE80\\u0000"')
    yield good("escapes", "every escape of JSON", sealed(escapes))
    yield good("deepest", f"{MOST_DEPTH} brackets inside each other", made(_nested(MOST_DEPTH - 1)))
    yield good("long_number", "a number of 32 characters", sealed(BODY[:-1] + ',"later":0.' + "1" * 30 + "}"))
    yield good("largest", f"a file of {MOST_BYTES:,} bytes", _padded(MOST_BYTES))
    names = {"files": {**BASE["files"], "a/..b": _record("a/..b"), "ä/.c": _record("ä/.c")}}
    extra: dict[str, str | None] = {name: name.encode().hex() for name in ("a/..b", "ä/.c")}
    names["files"]["ä/.c"]["bytes"] = 5
    yield (
        "names",
        "names with dots and beyond ASCII that are inside",
        None,
        made(lambda m: m.update(names)),
        extra,
    )


def _nested(depth: int) -> Change:
    """A change that adds an unknown field of that many arrays."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return lambda m: m.update(later=value)


def _padded(size: int) -> bytes:
    """A manifest with spaces at its end, which the seal covers, of that many bytes."""
    spaces = size - len(WHOLE)
    return sealed(BODY + " " * spaces)


def _text() -> Iterator[Case]:
    def bad(name: str, why: str, data: bytes, fault: str = "unreadable") -> Case:
        return name, why, fault, data, {}

    yield "no_manifest", "a directory without a manifest", "no_bundle", WHOLE, {"manifest.json": None}
    yield bad("empty", "no bytes", b"")
    yield bad("cut", "cut in the middle", WHOLE[: len(WHOLE) // 2])
    yield bad("too_large", f"a file of {MOST_BYTES + 1:,} bytes", _padded(MOST_BYTES + 1))
    yield bad("not_utf8", "a byte that is not UTF-8", WHOLE.replace(b"Qwen2", b"Ll\xffma", 1))
    yield bad("utf8_long", "a slash in two bytes is not UTF-8", WHOLE.replace(b"Qwen2", b"Ll\xc0\xafma", 1))
    yield bad("utf8_surrogate", "half a pair is not UTF-8", WHOLE.replace(b"Qwen2", b"\xed\xa0\x80", 1))
    yield bad("byte_order_mark", "a byte order mark", b"\xef\xbb\xbf" + WHOLE)
    yield bad("deep", "brackets that are never closed", b"[" * 3000)
    yield bad("too_deep", f"{MOST_DEPTH + 1} brackets inside each other", made(_nested(MOST_DEPTH)))
    deep = b'{"a":' * 100 + b"1" + b"}" * 100
    yield bad("too_deep_objects", "100 objects inside each other", deep)
    brackets = body_of({**BASE, "later": "[" * 100 + '"' + "{" * 100})
    yield "brackets_in_text", "brackets in a string are not counted", None, sealed(brackets), {}
    for name, why, text in (
        ("half_pair", "half a surrogate pair by an escape", '"\\ud83d"'),
        ("pair_turned", "the halves of a surrogate pair in the wrong order", '"\\ude80\\ud83d"'),
        ("control_character", "a newline inside a string", '"a\nb"'),
        ("bad_escape", "an escape that JSON does not have", '"\\x41"'),
        ("short_escape", "three digits", '"\\u041"'),
        ("single_quotes", "quotation marks of another kind", "'a'"),
        ("nan", "NaN is not JSON", "NaN"),
        ("infinity", "Infinity is not JSON", "-Infinity"),
        ("too_large_number", "a number that no binary64 holds", "1e999"),
        ("number_of_33", "a number of 33 characters", "0." + "1" * 31),
        ("integer_of_33", "an integer of 33 digits", "1" * 33),
        ("leading_zero", "a number that begins with 0", "01"),
        ("plus", "a number with a plus sign", "+1"),
        ("no_fraction", "a point without a digit after it", "1."),
        ("no_integer", "a point without a digit before it", ".5"),
        ("hexadecimal", "a number in hexadecimal digits", "0x10"),
        ("comma_array", "a comma before the end of an array", "[1,]"),
        ("comment", "a comment", "1/* one */"),
        ("upper_true", "True is not JSON", "True"),
        ("space_of_unicode", "U+00A0 is not white space in JSON", "\u00a01"),
        ("twice_inside", "a name twice in an object", '{"a":1,"a":1}'),
        ("twice_escaped", "a name twice, once with an escape", '{"a":1,"\\u0061":2}'),
    ):
        yield bad(name, why, sealed(BODY[:-1] + f',"later":{text}}}'))
    yield bad("comma_object", "a comma before the end of an object", sealed(BODY[:-1] + ",}"))
    yield bad("name_twice", "the field format twice", sealed(BODY[:-1] + ',"format":"omnidraft.bundle"}'))
    yield bad("seal_twice", "the seal twice", sealed(BODY[:-1] + ',"seal":""}'))
    yield bad("text_after", "text after the object", sealed(BODY + " 1"))
    yield bad("object_after", "another object after the first", sealed(BODY + "{}"))
    yield bad("zero_after", "a zero byte at the end", sealed(BODY + "\0"))
    yield bad("list", "JSON, but not an object", b"[1]", "not_a_bundle")
    yield bad("null", "null", b"null", "not_a_bundle")
    yield bad("other_format", "another format", made(lambda m: m.update(format="other")), "not_a_bundle")
    yield bad("no_format", "the format is missing", made(lambda m: m.pop("format")), "not_a_bundle")
    for version in (0, 1, 2, 4, "3", 3.0, None, True):
        name = f"version_{version}".replace(".", "_").lower() + ("_text" if version == "3" else "")
        yield bad(name, "another version", made(put(["version"], version)), "version")
    old = {**BASE, "version": 1, "seal": "5e" * 32}
    yield bad("version_1_form", "version 1 had the seal elsewhere", body_of(old).encode(), "version")


def _seal() -> Iterator[Case]:
    digits, rest = WHOLE[10:74], WHOLE[74:]
    cases = [
        ("no_seal", "the seal is missing", BODY.encode()),
        ("seal_last", "the seal is the last field", f'{BODY[:-1]},"seal":"{digits.decode()}"}}'.encode()),
        ("seal_without_space", "no space after the colon", WHOLE.replace(b'{"seal": "', b'{"seal":"', 1)),
        ("seal_two_spaces", "two spaces after the colon", WHOLE.replace(b'{"seal": "', b'{"seal":  "', 1)),
        ("seal_after_newline", "a newline after the bracket", b"{\n" + WHOLE[1:]),
        ("seal_after_space", "a space before the bracket", b" " + WHOLE),
        ("seal_space_after", "a space before the comma", _sealed_with(b'" ,' + rest[2:])),
        ("seal_upper", "digits in upper case", WHOLE[:10] + digits.upper() + rest),
        ("seal_short", "63 digits", WHOLE[:73] + rest),
        ("seal_long", "65 digits", WHOLE[:74] + b"0" + rest),
        ("seal_other", "one digit changed", WHOLE[:73] + (b"1" if digits[-1:] == b"0" else b"0") + rest),
        ("flipped", "one letter was changed after sealing", WHOLE.replace(b"Qwen", b"Qven", 1)),
        ("printed_again", "the same values, printed with other spaces", _printed_again()),
        ("newline_more", "a newline at the end, after sealing", WHOLE + b"\n"),
        ("seal_of_all", "the seal of all bytes, with zeros in its place", _seal_of(WHOLE[:10] + b"0" * 64)),
        ("seal_of_object", "the seal of the object without the field", _seal_of(b"{", 2)),
        ("seal_after_quote", "the seal without the closing quotation mark", _seal_of(b"", 1)),
    ]  # fmt: skip
    for name, why, data in cases:
        yield name, why, "seal", data, {}


def _sealed_with(rest: bytes) -> bytes:
    """A file with a right seal over any bytes."""
    return b'{"seal": "' + hashlib.sha256(rest).hexdigest().encode() + rest


def _printed_again() -> bytes:
    return WHOLE[:74] + b'",' + json.dumps(BASE)[1:].encode()


def _seal_of(start: bytes, skip: int = 0) -> bytes:
    """A seal over other bytes than the rule says."""
    return WHOLE[:10] + hashlib.sha256(start + WHOLE[74 + skip :]).hexdigest().encode() + WHOLE[74:]


def _files() -> Iterator[Case]:
    def bad(name: str, why: str, fault: str, change: Change) -> Case:
        return name, why, fault, made(change), {}

    yield "file_missing", "a graph was not copied", "missing", WHOLE, {GRAPH: None}
    yield "file_short", "a graph was cut", "size", WHOLE, {GRAPH: "00"}
    yield "file_long", "a graph has a byte more", "size", WHOLE, {GRAPH: GRAPH.encode().hex() + "00"}
    flipped = bytes([GRAPH.encode()[0] ^ 1]) + GRAPH.encode()[1:]
    yield "file_flipped", "a bit of a graph changed", "checksum", WHOLE, {GRAPH: flipped.hex()}
    yield "file_first", "files are checked in their order in the manifest", "checksum", WHOLE, {
        GRAPH: flipped.hex(), "drafter/tokenizer.json": None,
    }  # fmt: skip
    nothing: list[tuple[str, object]] = [("no_files", {}), ("files_list", [GRAPH]), ("files_null", None)]
    for name, table in nothing:
        yield bad(name, "the manifest lists no files", "no_hash", put(["files"], table))
    yield bad("files_missing", "the manifest lists no files", "no_hash", lambda m: m.pop("files"))
    many = {f"f{i}": _record("x") for i in range(1025 - len(FILES))}
    yield bad("files_too_many", "1,025 entries that are right", "no_hash", lambda m: m["files"].update(many))
    yield bad("hash_missing", "an entry without a hash", "no_hash", lambda m: m["files"][GRAPH].pop("sha256"))
    yield bad("bytes_missing", "an entry without a size", "no_hash", lambda m: m["files"][GRAPH].pop("bytes"))
    yield bad(
        "record_text", "a hash without a size", "no_hash", lambda m: m["files"].update({GRAPH: "0" * 64})
    )
    right = BASE["files"][GRAPH]["sha256"]
    for name, value in (("short", "a" * 63), ("long", "a" * 65), ("upper", right.upper()), ("empty", ""),
                        ("null", None), ("letters", "g" * 64), ("newline", "a" * 64 + "\n")):  # fmt: skip
        yield bad(f"hash_{name}", "not 64 digits 0-9a-f", "no_hash", put(["files", GRAPH, "sha256"], value))
    for name, size in (("negative", -1), ("float", 21.0), ("text", "21"), ("huge", 1 << 53), ("true", True)):
        why = "not an integer from 0 to 2^53 - 1"
        yield bad(f"bytes_{name}", why, "no_hash", put(["files", GRAPH, "bytes"], size))
    for name, path in (
        ("absolute", "/etc/hosts"), ("parent", "../model.onnx"), ("inside", "a/../../b"), ("down", "a/../b"),
        ("backslash", "a\\b"), ("drive", "C:/model.onnx"), ("dot", "./a"), ("empty_part", "a//b"),
        ("empty", ""), ("end", "a/"), ("zero", "a\0b"), ("newline", "a\nb"), ("long", "a" * 513),
        ("long_utf8", "ä" * 257),
    ):  # fmt: skip
        why = f"{path[:20]!r} is no name inside the bundle"
        yield bad(f"path_{name}", why, "outside", put(["files", path], BASE["files"][GRAPH]))
    yield bad("outside_before_hash", "the name of an entry is checked before its hash", "outside",
              lambda m: m["files"].update({"../a": {}}))  # fmt: skip
    used = [GRAPH, FILES[2], FILES[3], MAP, STEP, *FILES[7:]]
    for i, path in enumerate(used):
        data = made(pop(["files", path]), FULL)
        yield f"not_listed_{i}", f"{path} is used, and no hash protects it", "no_hash", data, {}
    beside: dict[str, str | None] = {f"{GRAPH}.data": "00"}
    yield "data_not_listed", "weights beside a graph that no hash protects", "no_hash", WHOLE, beside
    yield "other_file", "a file that the manifest does not list is ignored", None, WHOLE, {"notes.txt": "00"}
    # The order of the checks: seal, fields, the table of files, used files, then the files themselves.
    broken: Change = lambda m: (m["target"].pop("kv"), m["files"].pop(GRAPH))  # noqa: E731
    yield "order_field_first", "a field is checked before the files", "field", made(broken), {MAP: None}
    yield "order_no_hash", "the table is checked before the files", "no_hash", made(
        lambda m: m["files"].pop("drafter/tokenizer.json")), {MAP: None}  # fmt: skip
    yield (
        "order_seal",
        "the seal is checked before the fields",
        "seal",
        WHOLE.replace(b'"kv"', b'"kw"'),
        {MAP: None},
    )
