"""Vectors of `bundle`: manifests of a small directory that open, and files that are not as listed."""

import json
from collections.abc import Iterator

from vectorlib.cases.manifests.manifests import (
    BASE,
    BODY,
    ENDS,
    FILES,
    FULL,
    GRAPH,
    MAP,
    MOST_BYTES,
    MOST_DEPTH,
    STEP,
    WHOLE,
    Case,
    Change,
    Manifest,
    bundle_vector,
    made,
    nested,
    padded,
    pop,
    put,
    record,
    static,
)
from vectorlib.reference.manifest import body_of, sealed
from vectorlib.writer import VectorWriter


def write(writer: VectorWriter) -> None:
    writer.table("bundle/files.json", list(FILES))
    for topic, cases in (
        ("valid", [*_valid(), *_kv_types(), *_no_drafter(), *_trims()]),
        ("listed", _files()),
    ):
        writer.vectors("bundle", topic, [bundle_vector(*case) for case in cases])


def _trims() -> Iterator[Case]:
    for name, why, ends in (
        ("all", "all ends of messages lose white space", list(ENDS)),
        ("none", "no end does, not even of an answer", []),
        ("null", "null is the same as absent: the ends of answers", None),
    ):
        yield f"trim_{name}", why, None, made(put(("prompt", "trim"), ends)), {}


def _kv_types() -> Iterator[Case]:
    for kind, role in (("float16", "target"), ("float16", "drafter"), ("float32", "target")):
        why = "the type of the keys and values"
        yield f"kv_{kind}_{role}", why, None, made(put((role, "kv", "type"), kind)), {}
    both: Change = lambda m: (m["target"]["kv"].update(type="float16"), m["target"].update(npu=static()))  # noqa: E731
    yield "kv_float16_npu", "static graphs beside a graph with float16 keys and values", None, made(both), {}


def _no_drafter() -> Iterator[Case]:
    why = "the 256 bytes are in place of a drafter"
    yield "no_drafter", why, None, made(lambda m: m.update(drafter=None)), {}


def _valid() -> Iterator[Case]:
    def good(name: str, why: str, data: bytes) -> Case:
        return name, why, None, data, {}

    yield good("whole", "every required field is there", WHOLE)
    yield good("full", "every optional field is there, too", sealed(body_of(FULL)))
    yield good("later", "an unknown field is ignored", made(lambda m: m.update(later=[1e16, None])))
    ort = {"target": "target/m.ort", "drafter": 5}
    yield good(
        "ort",
        "graphs in another format are not read: an unknown field, too",
        made(lambda m: m.update(ort=ort)),
    )
    unknown: Change = lambda m: (m["target"].update(x=1), m["costs"].update(x=1), m["prompt"].update(x=1))  # noqa: E731
    yield good("later_inside", "an unknown field inside another is ignored", made(unknown))
    nothing: Manifest = dict.fromkeys(("between", "after", "template", "system", "think"))
    bare = nothing | {"names": {}}
    yield good(
        "single_turn",
        "no template, two strings, no system prompt, no thoughts",
        made(lambda m: m["prompt"].update(bare)),
    )
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
    yield good("deepest", f"{MOST_DEPTH} brackets inside each other", made(nested(MOST_DEPTH - 1)))
    yield good("long_number", "a number of 32 characters", sealed(BODY[:-1] + ',"later":0.' + "1" * 30 + "}"))
    yield good("largest", f"a file of {MOST_BYTES:,} bytes", padded(MOST_BYTES))
    names = {"files": {**BASE["files"], "a/..b": record("a/..b"), "ä/.c": record("ä/.c")}}
    extra: dict[str, str | None] = {name: name.encode().hex() for name in ("a/..b", "ä/.c")}
    names["files"]["ä/.c"]["bytes"] = 5
    yield (
        "names",
        "names with dots and beyond ASCII that are inside",
        None,
        made(lambda m: m.update(names)),
        extra,
    )
    for name, role in (("target_longer", "target"), ("drafter_longer", "drafter")):
        longer = made(put((role, "kv", "max_length"), 8192))
        yield good(name, "models of one bundle may have other numbers of positions", longer)


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
    many = {f"f{i}": record("x") for i in range(1025 - len(FILES))}
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
