"""Attempts with tokenizers: in a bundle whose tokenizer could not be compiled, and in compiled files."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hostile.bundle_attacks import Attempt
from hostile.spoiled import Copy, answer
from omnidraft.runtime.vocab.compiled_tokenizer import CompiledTokenizer
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer_file import read_tokenizer_file
from omnidraft.runtime.vocab.tokenizer_format import SECTIONS, SECTIONS_START
from omnidraft.runtime.vocab.tokenizer_tables import HEADER, TABLE
from support.places import ROOT

VECTORS = ROOT / "spec/vectors/tokenizer"
FILE, COMPILED = "target/tokenizer.json", "target/tokenizer.bin"
TEXT = "How many legs do 3 cats have? " + "x" * 200
KINDS: list[Any] = [None, 1, "x", [], {}, [[]], [{}], True, 1e300, {"type": 1}, {"type": "BPE", "vocab": {}}]


def tokenizers(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Files of tokenizers with other kinds, numbers and sizes than they may have."""
    spec: dict[str, Any] = json.loads((bundle / FILE).read_text())
    for name in ("model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"):
        for number, kind in enumerate(KINDS):
            yield from _file(work, f"{name} is {kind!r:.30} ({number})", {**spec, name: kind})
    for name, model in _models(spec["model"]).items():
        yield from _file(work, name, {**spec, "model": model})
    for name, changes in _changes().items():
        yield from _file(work, name, {**spec, **changes})
    for name, text in {
        "lists in lists": "[" * 100_000 + "]" * 100_000, "no JSON": "{", "a list": "[]", "no model": "{}",
        "not UTF-8": "\udcff",
    }.items():  # fmt: skip
        path = work / "raw.json"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        yield f"tokenizer.json: {name}", partial(LibraryTokenizer.from_file, path)
    place = (
        Copy(bundle, work / "library")
        .change(lambda m: m["target"].update({"compiled_tokenizer": None}))
        .seal()
    )
    yield "a bundle whose tokenizer the library runs", partial(answer, place)
    yield from _compiled(bundle, work)


def _file(work: Path, name: str, spec: dict[str, Any]) -> Iterator[Attempt]:
    path = work / "tokenizer.json"
    path.write_text(json.dumps(spec))
    yield f"tokenizer.json: {name}", partial(_encode, path)


def _encode(path: Path) -> int:
    tokenizer = LibraryTokenizer.from_file(path)
    ids = tokenizer.encode_prompt("<s>", TEXT, "</s>")
    return len(tokenizer.spell(TEXT.encode()) or []) + len(ids) + len(tokenizer.fingerprint)


def _models(model: dict[str, Any]) -> dict[str, Any]:
    large = {**model["vocab"], "far": 2**31}
    return {
        "an id of 2^31": {**model, "vocab": large},
        "an id of 2^63": {**model, "vocab": {**model["vocab"], "far": 2**63}},
        "a negative id": {**model, "vocab": {**model["vocab"], "far": -5}},
        "an id that is text": {**model, "vocab": {**model["vocab"], "far": "x"}},
        "2 million tokens": {**model, "vocab": {f"t{i}": i for i in range(2_000_000)}},
        "no vocabulary": {**model, "vocab": None},
        "a vocabulary of lists": {**model, "vocab": [[]]},
        "merges of nothing": {**model, "merges": [["never", "there"]]},
        "a million merges": {**model, "merges": [["a", "b"]] * 1_000_000},
        "a million merges in one string each": {**model, "merges": ["a b"] * 1_000_000},
        "ten million numbers": {**model, "merges": [0] * 10_000_000},
    }  # fmt: skip


def _changes() -> dict[str, dict[str, Any]]:
    def regex(text: str) -> dict[str, Any]:
        split = {"type": "Split", "pattern": {"Regex": text}, "behavior": "Isolated", "invert": False}
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}}

    doubles = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 40
    added = [{"id": 1_000_000_000, "content": "<x>", "special": True}]
    many = [{"id": 100_000 + i, "content": f"<control{i}>", "special": True} for i in range(300_000)]
    return {
        "regex (x+x+)+y": regex("(x+x+)+y"),
        "regex (x*)*$": regex("(x*)*y$"),
        "regex of a thousand groups": regex("(" * 1000 + "a" + ")" * 1000),
        "regex that is none": regex("("),
        "a normalizer that doubles 40 times": {"normalizer": {"type": "Sequence", "normalizers": doubles}},
        "a control token with id 10^9": {"added_tokens": added},
        "300,000 control tokens": {"added_tokens": many},
        "a control token of no text": {"added_tokens": [{"id": 5, "content": "", "special": True}]},
        "post_processor.single is text": {"post_processor": {"single": "x"}},
    }


def _compiled(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Mutants of a compiled file; `test_tokenizer_file.py` tries thousands more of a small one."""
    whole, rng = (bundle / COMPILED).read_bytes(), random.Random(7)
    for number in range(40):
        data = bytearray(whole[: len(whole) if number % 4 else rng.randrange(len(whole))])
        for _ in range(rng.choice((1, 4, 64))):
            data[rng.randrange(min(len(data), 4096 if number % 2 else len(data)))] = rng.choice(
                (0, 255, rng.randrange(256))
            )
        path = work / f"{number}.bin"
        path.write_bytes(data)
        yield f"tokenizer.bin: mutant {number}", partial(_encode_compiled, path)
    for file in sorted((VECTORS / "invalid").glob("*.bin")):
        yield f"tokenizer.bin: {file.stem}", partial(_encode_compiled, file, "xa" * 1000)
    for name, text in {"bounds": "xa" * 1000, "spaces": " " * 100_000, "contiguous": "1" * 200_000}.items():
        yield f"tokenizer.bin: {name}", partial(_encode_compiled, VECTORS / f"{name}.bin", text)
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + 2000)))
    yield "tokenizer.bin: a piece of 64 MB", partial(_encode_compiled, _long_piece(work), letters)


def _long_piece(work: Path) -> Path:
    """A file whose search for a piece meets a very long one at each turn."""
    tables = read_tokenizer_file(memoryview((VECTORS / "llama2.bin").read_bytes()))
    path, sections = work / "long.bin", {}
    data = (VECTORS / "llama2.bin").read_bytes()
    table = TABLE.unpack_from(data, HEADER.size)
    for name, start, size in zip(SECTIONS, table[::2], table[1::2], strict=True):
        sections[name] = data[start : start + size]
    offsets = [*tables.offsets[:-1], len(tables.text) + (64 << 20)]
    sections["offsets"] = struct.pack(f"<{len(offsets)}I", *offsets)
    sections["text"] += bytes(64 << 20)
    sections["sorted"] = struct.pack("<I", len(offsets) - 2) * (1 << 16)
    numbers, end = [], SECTIONS_START
    with path.open("wb") as file:
        file.write(data[: HEADER.size] + bytes(TABLE.size))
        for section in sections.values():
            numbers += [end, len(section)]
            end += len(section) + -len(section) % 8
            file.write(section + bytes(-len(section) % 8))
        file.seek(HEADER.size)
        file.write(TABLE.pack(*numbers))
    return path


def _encode_compiled(path: Path, text: str = TEXT) -> int:
    tokenizer = CompiledTokenizer.from_file(path)
    ids = tokenizer.encode_prompt(text, text, text)
    return len(ids) + len(tokenizer.spell(text.encode()) or [])
