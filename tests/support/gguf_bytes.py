"""GGUF files byte by byte, so that every count, length and offset can be wrong."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

TYPES = {"F32": 0, "F16": 1, "Q4_1": 3, "Q8_0": 8, "Q4_K": 12}
Tensor = tuple[str, Sequence[int], str, int]  # name, sizes (columns first), type, offset


def text(value: str | bytes) -> bytes:
    """A string."""
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def value(item: Any) -> bytes:
    """A value with its type; lists are arrays of the type of their first item."""
    if isinstance(item, list):
        kinds = {bool: 7, int: 4, float: 6, str: 8}
        packed = b"".join(value(each)[4:] for each in item)
        return struct.pack("<IIQ", 9, kinds[type(item[0])] if item else 4, len(item)) + packed
    for kind, number, form in ((bool, 7, "<?"), (int, 4, "<I"), (float, 6, "<f")):
        if type(item) is kind:
            return struct.pack("<I", number) + struct.pack(form, item)
    return struct.pack("<I", 8) + text(item)


def key(name: str, item: Any) -> bytes:
    """A key and its value."""
    return text(name) + value(item)


def tensor(name: str, sizes: Sequence[int], kind: int, offset: int) -> bytes:
    """The entry of a tensor."""
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def whole(
    keys: Mapping[str, Any],
    tensors: Sequence[Tensor],
    data: int,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """A file.

    Args:
        keys: the metadata.
        tensors: the entries.
        data: bytes of the tensors.
        version: of the format.
        counts: stated numbers of tensors and keys, if they are wrong.
    """
    stated = counts or (len(tensors), len(keys))
    head = b"GGUF" + struct.pack("<IQQ", version, *stated)
    head += b"".join(key(name, item) for name, item in keys.items())
    head += b"".join(tensor(name, sizes, TYPES[kind], offset) for name, sizes, kind, offset in tensors)
    alignment = keys.get("general.alignment", 32)
    return head + bytes(-len(head) % alignment) + bytes(data)


KEYS: dict[str, Any] = {
    "general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 64,
    "llama.embedding_length": 32, "llama.feed_forward_length": 64, "llama.attention.head_count": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.dimension_count": 16,
    "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": ["a", "b", "ab", "<e>"], "tokenizer.ggml.token_type": [1, 1, 1, 3],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 3,
}  # fmt: skip
SHAPES = {
    "token_embd.weight": (32, 4), "output_norm.weight": (32,), "blk.0.attn_norm.weight": (32,),
    "blk.0.attn_q.weight": (32, 32), "blk.0.attn_k.weight": (32, 32), "blk.0.attn_v.weight": (32, 32),
    "blk.0.attn_output.weight": (32, 32), "blk.0.ffn_norm.weight": (32,), "blk.0.ffn_gate.weight": (32, 64),
    "blk.0.ffn_up.weight": (32, 64), "blk.0.ffn_down.weight": (64, 32),
}  # fmt: skip


def model() -> tuple[list[Tensor], int]:
    """The entries of a small model in Q8_0, and the bytes of its tensors."""
    tensors: list[Tensor] = []
    at = 0
    for name, sizes in SHAPES.items():
        count = sizes[0] * (sizes[1] if len(sizes) == 2 else 1)
        kind = "Q8_0" if len(sizes) == 2 else "F32"
        tensors.append((name, sizes, kind, at))
        at += -(-(count // 32 * 34 if kind == "Q8_0" else 4 * count) // 32) * 32
    return tensors, at


def sound() -> bytes:
    """A file without a fault."""
    tensors, size = model()
    return whole(KEYS, tensors, size)
