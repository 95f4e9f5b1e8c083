"""Attention of one new token a row to a cache, as a Triton kernel: it reads only what a row holds."""

import torch
import triton
import triton.language as tl

_BLOCK = tl.constexpr(64)


@triton.jit
def _decode(
    queries,
    keys,
    values,
    place,
    out,
    length,
    group: tl.constexpr,
    size: tl.constexpr,
):
    head = tl.program_id(0)  # row * kv heads + kv head
    count = tl.load(place + head) + 1
    g, d, b = tl.arange(0, 16), tl.arange(0, size), tl.arange(0, _BLOCK)
    at = (head * group + g[:, None]) * size + d[None, :]
    q = tl.load(queries + at, mask=g[:, None] < group, other=0.0)
    top = tl.full([16], -1e30, tl.float32)
    total = tl.zeros([16], tl.float32)
    mixed = tl.zeros([16, size], tl.float32)
    base = head.to(tl.int64) * length * size
    for start in range(0, count, _BLOCK):
        column = start + b
        held = column < count
        where = base + column[:, None] * size + d[None, :]
        k = tl.load(keys + where, mask=held[:, None], other=0.0)
        v = tl.load(values + where, mask=held[:, None], other=0.0)
        score = tl.dot(q, tl.trans(k)) * size**-0.5
        score = tl.where(held[None, :], score, -1e30)
        higher = tl.maximum(top, tl.max(score, 1))
        part = tl.exp(score - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(part, 1)
        mixed = mixed * shrink[:, None] + tl.dot(part.to(v.dtype), v)
        top = higher
    result = mixed / total[:, None]
    tl.store(out + at, result.to(out.dtype.element_ty), mask=g[:, None] < group)


def attend(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, place: torch.Tensor
) -> torch.Tensor:
    """Attention of queries [rows, kv heads, group, size] to places 0 .. place of keys and values.

    Both are [rows, kv heads, length, size].
    """
    rows, kv_heads, group, size = queries.shape
    out = torch.empty_like(queries, memory_format=torch.contiguous_format)
    _decode[(rows * kv_heads,)](
        queries.contiguous(),
        keys,
        values,
        place.repeat_interleave(kv_heads),
        out,
        keys.shape[2],
        group=group,
        size=size,
    )
    return out
