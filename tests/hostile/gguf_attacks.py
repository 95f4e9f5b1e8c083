"""Attempts with GGUF files: headers that promise too much, and tokenizers from their metadata."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hostile.bundle_attacks import Attempt
from omnidraft.checkpoints.gguf.gguf_file import GgufFile
from support.gguf_bytes import KEYS, model, sound, text, whole

KEY = "tokenizer.ggml"


def gguf_files(_: Path, work: Path) -> Iterator[Attempt]:
    """Files with absurd counts and lengths, and tokenizers of all kinds; the fuzzer has mutants."""
    start = b"GGUF" + struct.pack("<I", 3)
    one_key = start + struct.pack("<QQ", 0, 1) + text("a")
    strings = (struct.pack("<Q", 1) + b"x") * ((1 << 26) // 9)
    for name, content in {
        "no tensors and no keys": start + bytes(16),
        "2^63 keys": start + struct.pack("<QQ", 0, 1 << 63),
        "a text of 2^63 bytes": start + struct.pack("<QQQ", 0, 1, 1 << 63) + bytes(99),
        "64 MB of texts": one_key + struct.pack("<IIQ", 9, 8, 1 << 21) + strings,
        "2 million numbers": one_key + struct.pack("<IIQ", 9, 10, 1 << 21) + bytes(8 << 21),
    }.items():  # fmt: skip
        path = work / "header.gguf"
        path.write_bytes(content)
        yield f"a GGUF file: {name}", partial(_read, path)
    path = work / "sparse.gguf"
    with path.open("wb") as file:
        file.write(sound())
        file.truncate(8 << 30)
    yield "a GGUF file of 8 GB with little in it", partial(_read, path)
    for name, changes in _keys().items():
        path = work / "keys.gguf"
        path.write_bytes(whole({**KEYS, **changes}, *model()))
        yield f"a GGUF file: {name}", partial(_read, path)


def _keys() -> dict[str, dict[str, Any]]:
    words = [f"t{i}" for i in range(400_000)]
    return {
        "a million layers": {"llama.block_count": 1_000_000},
        "2^31 positions": {"llama.context_length": (1 << 31) - 1},
        "2^31 heads": {"llama.attention.head_count": (1 << 31) - 1},
        "a feed-forward of 2^31": {"llama.feed_forward_length": (1 << 31) - 1},
        "a frequency of infinity": {"llama.rope.freq_base": float("inf")},
        "an architecture that is a number": {"general.architecture": 5},
        "an architecture that is a list": {"general.architecture": ["llama"]},
        "a type that is two numbers": {"general.type": [1, 2]},
        "parts that are two numbers": {"split.count": [0, 1]},
        "scaling that is two numbers": {"llama.rope.scaling.type": [1, 2]},
        "factors of scaling that are texts": {"llama.rope.scaling.factor": ["a"]},
        "windows that are two numbers": {"llama.attention.sliding_window": [0, 0]},
        "a kind of tokenizer that is two numbers": {f"{KEY}.model": [1, 2]},
        "a rule of splitting that is a list": {f"{KEY}.pre": ["gpt-2"]},
        "merges that are a number": {f"{KEY}.merges": 3},
        "types that are a number": {f"{KEY}.token_type": 3},
        "scores that are a number": {f"{KEY}.model": "llama", f"{KEY}.scores": 3},
        "a flag that is a list": {f"{KEY}.add_bos_token": [True, False]},
        "400,000 tokens": {f"{KEY}.tokens": words, f"{KEY}.token_type": [1] * len(words)},
        "400,000 control tokens": {f"{KEY}.tokens": words, f"{KEY}.token_type": [3] * len(words)},
        "tokens that are numbers": {f"{KEY}.tokens": [1, 2, 3, 4]},
        "tokens that are one text": {f"{KEY}.tokens": "abcd"},
        "a million merges": {f"{KEY}.merges": ["a b"] * 1_000_000},
        "merges that are a text": {f"{KEY}.merges": "a b"},
        "merges of nothing": {f"{KEY}.merges": [" "]},
        "scores that are texts": {f"{KEY}.model": "llama", f"{KEY}.scores": ["a"] * 4, f"{KEY}.merges": []},
        "types that are texts": {f"{KEY}.token_type": ["a"] * 4},
        "the same token four times": {f"{KEY}.tokens": ["a"] * 4},
        "empty tokens": {f"{KEY}.tokens": [""] * 4},
        "a token of a megabyte": {f"{KEY}.tokens": ["a", "b", "x" * 1_000_000, "<e>"]},
        "a template of a megabyte": {"tokenizer.chat_template": "{{ x }}" * 140_000},
        "a template that is a number": {"tokenizer.chat_template": 7},
        "a token with a surrogate": {f"{KEY}.tokens": ["a", "b", "\u0000", "<e>"]},
    }  # fmt: skip


def _read(path: Path) -> str:
    made = GgufFile(str(path), path)
    return f"{len(list(made.directory.iterdir()))} files"
