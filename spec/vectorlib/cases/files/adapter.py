"""Vectors of `adapter/valid` and `adapter/invalid`: adapter files, and the fault of each bad file."""

import hashlib
import json
import struct
from collections.abc import Iterator
from typing import Any

from vectorlib.writer import VectorWriter, vector

BASE, DRAFT, TARGET = "a" * 64, "d" * 64, "e" * 64
Matrix = list[list[float]]
Header = dict[str, Any]

ONE: dict[str, Matrix] = {"layers.0.o.lora_a": [[1.0], [2.0]], "layers.0.o.lora_b": [[0.5]]}
QKV: dict[str, Matrix] = {  # q and v of rank 1 in a site of widths 2, 1 and 1
    "layers.0.qkv.lora_a": [[1.0, -1.0], [0.25, 0.0], [0.0, 3.0]],
    "layers.0.qkv.lora_b": [[0.5, 0.75, 0.0, 0.0], [0.0, 0.0, 0.0, -2.0]],
}
TEN: dict[str, Matrix] = {n.replace(".0.", f".{i}."): m for i in (2, 10) for n, m in ONE.items()}


def metadata(tensors: dict[str, Matrix]) -> dict[str, str]:
    """The metadata of these tensors."""
    kinds = {name.split(".")[2] for name in tensors if name.count(".") == 3}
    ranks = [len(m) for name, m in tensors.items() if name.endswith(".lora_b")]
    return {
        "format": "omnidraft.adapter",
        "version": "1",
        "base": BASE,
        "draft_tokenizer": DRAFT,
        "target_tokenizer": TARGET,
        "rank": str(max(ranks, default=0)),
        "alpha": "folded",
        "targets": ",".join(sorted(kinds)),
        "created": "2026-01-02T03:04:05Z",
    }


def sizes(rows: Matrix) -> list[int]:
    """The shape of a tensor."""
    return [len(rows), len(rows[0]) if rows else 0]


def parts(tensors: dict[str, Matrix], order: list[str] | None = None) -> tuple[Header, bytes]:
    """The header of a file and its tensors' bytes."""
    header: Header = {"__metadata__": metadata(tensors)}
    data = b""
    for name in order or sorted(tensors):
        flat = [value for row in tensors[name] for value in row]
        start, data = len(data), data + struct.pack(f"<{len(flat)}f", *flat)
        shape = sizes(tensors[name])
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(data)]}
    return header, data


def file_of(header: Header, data: bytes) -> bytes:
    """The canonical bytes of an adapter."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def digest(tensors: dict[str, Matrix]) -> str:
    """The digest by which session files name an adapter."""
    sha256 = hashlib.sha256(BASE.encode())
    for name in sorted(tensors, key=lambda n: (n.rpartition(".")[0], n)):
        rows = tensors[name]
        sha256.update("\0".join(["", name, *map(str, sizes(rows)), ""]).encode())
        sha256.update(b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows))
    return sha256.hexdigest()


def write(writer: VectorWriter) -> None:
    _write_valid(writer)
    vectors = []
    for name, why, fault, data in (*_bytes(), *_metadata(), *_tensors()):
        writer.file(f"adapter/invalid/{name}.safetensors", data)
        vectors.append(vector(name, why, {"file": f"{name}.safetensors"}, {"fault": fault}))
    writer.vectors("adapter/invalid", "files", vectors)


def _write_valid(writer: VectorWriter) -> None:
    turned = parts(ONE, sorted(ONE, reverse=True))
    loose = json.dumps(turned[0]).encode()
    cases: list[tuple[str, str, dict[str, Matrix], bytes, bool]] = [
        ("example", "the worked example of spec/11-adapter.md", ONE, file_of(*parts(ONE)), True),
        ("packed", "q and v of one product, k between them", QKV, file_of(*parts(QKV)), True),
        ("two_sites", "sites of different ranks; the metadata has the larger", ONE | QKV,
         file_of(*parts(ONE | QKV)), True),
        ("layers", "layers.10 sorts before layers.2", TEN, file_of(*parts(TEN)), True),
        ("other_writer", "another order, spaces in the header, no padding: still safetensors", ONE,
         struct.pack("<Q", len(loose)) + loose + turned[1], False),
    ]  # fmt: skip
    vectors = []
    for name, why, tensors, data, canonical in cases:
        writer.file(f"adapter/valid/{name}.safetensors", data)
        shapes = {n: sizes(m) for n, m in sorted(tensors.items())}
        expect = {"metadata": metadata(tensors), "shapes": shapes, "tensors": dict(sorted(tensors.items())),
                  "digest": digest(tensors), "canonical": canonical}  # fmt: skip
        vectors.append(vector(name, why, {"file": f"{name}.safetensors"}, expect))
    writer.vectors("adapter/valid", "files", vectors)


GOOD = file_of(*parts(ONE))
Case = tuple[str, str, str, bytes]


def _bytes() -> Iterator[Case]:
    """Too few bytes, too many bytes, or another file."""
    yield "empty_file", "a file of no bytes", "truncated", b""
    yield "length_half", "cut inside the header's length", "truncated", GOOD[:5]
    yield "length_only", "cut after it", "truncated", GOOD[:8]
    yield "header_half", "cut inside the header", "truncated", GOOD[:100]
    yield "last_byte_missing", "cut before the last byte", "truncated", GOOD[:-1]
    yield "two_bytes_more", "bytes after the end", "trailing_bytes", GOOD + b"\0\0"
    yield "other_file", "a PNG", "not_an_adapter", b"\x89PNG\r\n\x1a\n" + bytes(200)
    yield "long_header", "a header of 10^12 bytes", "not_an_adapter", struct.pack("<Q", 10**12) + GOOD[8:]
    yield "no_json", "a header that is not JSON", "not_an_adapter", struct.pack("<Q", 4) + b"{{{{"


def _metadata() -> Iterator[Case]:
    """One field of the metadata is wrong."""
    header, data = parts(ONE)
    rest = {name: value for name, value in header.items() if name != "__metadata__"}
    yield "no_metadata", "any safetensors file", "not_an_adapter", file_of(rest, data)
    for name, why, fault, fields in (
        ("format", "another format", "not_an_adapter", {"format": "omnidraft.vocab_map"}),
        ("version_2", "a later version", "version", {"version": "2"}),
        ("base_short", "a fingerprint of 4 digits", "metadata", {"base": "aaaa"}),
        ("tokenizer_upper", "digits are lower case", "metadata", {"draft_tokenizer": "D" * 64}),
        ("created", "not a time", "metadata", {"created": "yesterday"}),
        ("rank_other", "a rank that no tensor has", "metadata", {"rank": "8"}),
        ("alpha", "a scale that is not folded", "metadata", {"alpha": "16"}),
        ("targets_other", "a site that has no tensors", "metadata", {"targets": "o,qkv"}),
    ):
        yield name, why, fault, file_of({**header, "__metadata__": {**metadata(ONE), **fields}}, data)
    late = {**header, "__metadata__": {**metadata(ONE), "version": "2"}}
    yield "version_2_cut", "the version is checked before the length", "version", file_of(late, data)[:-4]


A, B = "layers.0.o.lora_a", "layers.0.o.lora_b"
BAD_TENSORS: list[tuple[str, str, str, dict[str, Matrix]]] = [
    ("no_b", "A without B", "missing_tensor", {A: ONE[A]}),
    ("no_tensors", "no tensor at all", "missing_tensor", {}),
    ("bias", "a tensor with an unknown name", "extra_tensor", {**ONE, "layers.0.o.bias": [[1.0]]}),
    (
        "lm_head",
        "a site outside the layers",
        "extra_tensor",
        {f"lm_head.lora_{h}": [[1.0]] for h in "ab"},
    ),
    ("ranks_differ", "rank 2 in A and 1 in B", "shape", {A: [[1.0, 2.0]], B: [[1.0]]}),
    ("rank_0", "a site of rank 0", "shape", {A: [[], []], B: ONE[B]}),
    ("nan", "a value that is NaN", "non_finite", {A: [[float("nan")], [1.0]], B: ONE[B]}),
    ("infinite", "a value that is infinite", "non_finite", {A: ONE[A], B: [[float("-inf")]]}),
    ("rank_1025", "a site of rank 1025", "rank", {A: [[1.0] * 1025], B: [[1.0]] * 1025}),
]


def _tensors() -> Iterator[Case]:
    """Tensors with a wrong place, name, shape or value."""
    header, data = parts(ONE)
    wrong = {**header, A: {**header[A], "data_offsets": [0, 4]}}
    yield "hole", "4 bytes that belong to no tensor", "layout", file_of(wrong, data)
    yield (
        "size",
        "a shape with more values than the bytes hold",
        "layout",
        file_of({**header, A: {**header[A], "shape": [2, 2]}}, data),
    )
    entry = {name: value for name, value in header[A].items() if name != "data_offsets"}
    yield (
        "no_offsets",
        "an entry without offsets",
        "layout",
        file_of({**header, A: entry}, data),
    )
    halves = {**header, A: {**header[A], "dtype": "F16", "shape": [4, 1]}}
    yield "half_precision", "a tensor of F16", "dtype", file_of(halves, data)
    for name, why, fault, tensors in BAD_TENSORS:
        yield name, why, fault, file_of(*parts(tensors))
